use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;
use crate::test_tree::{AMPLE, TestTree, run};
use crate::{Scope, SnapshotName, restore_with};

/// A worktree and a checkout that start out the same, each changed by a script.
struct Two {
    worktree: TestTree,
    checkout: TestTree,
    base: Snapshot,
}

impl Two {
    fn new() -> Self {
        let (worktree, checkout) = (TestTree::new(), TestTree::new());
        for tree in [&worktree, &checkout] {
            tree.write("lines", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
            tree.write("plain", "plain\n");
            tree.write("doomed/file", "x\n");
            tree.write("run.sh", "#!/bin/sh\n");
            tree.write("binary", [0, 1, 2, 0, 255]);
            tree.link("plain", "link");
        }
        // The checkout was made with another umask.
        checkout.shell("chmod 664 plain lines run.sh");
        let base = worktree.save(&SnapshotName::base()).snapshot;
        Self { worktree, checkout, base }
    }

    fn merged(&self, in_worktree: &str, in_checkout: &str) -> (Snapshot, MergePlan) {
        self.worktree.shell(in_worktree);
        self.checkout.shell(in_checkout);
        let theirs = self.worktree.save(&SnapshotName::after(run())).snapshot;
        let mut cover = theirs.clone();
        cover.entries.extend(self.base.entries.clone());
        let history = self.checkout.history();
        let name = SnapshotName::before(run());
        let ours = history.save(&name, Scope::LookAs(&cover), &[], AMPLE).unwrap().snapshot;
        let merged = merge(&self.worktree.history(), &history, &self.base, &theirs, &ours).unwrap();
        (ours, merged)
    }

    #[track_caller]
    fn apply(&self, in_worktree: &str, in_checkout: &str) {
        let (ours, merged) = self.merged(in_worktree, in_checkout);
        assert_eq!(merged.conflicts, []);
        let (checkout, worktree) = (self.checkout.history(), self.worktree.history());
        let outcome = restore_with(&checkout, &worktree, &ours, &merged.target).unwrap();
        assert_eq!(outcome.failed, []);
    }
}

#[test]
fn changes_of_one_side_are_merged_and_the_other_sides_work_stays() {
    let two = Two::new();
    two.apply(
        "echo new > plain; rm -r doomed link; ln -s elsewhere link; chmod +x run.sh; \
         mkdir -p added/deep; echo x > added/deep/file; printf '\\0\\1' > binary",
        "echo mine > mine; mkdir empty; echo more > untouched",
    );
    let read = |path: &str| fs::read_to_string(two.checkout.path(path)).unwrap();
    assert_eq!((read("plain").as_str(), read("added/deep/file").as_str()), ("new\n", "x\n"));
    assert_eq!((read("mine").as_str(), read("untouched").as_str()), ("mine\n", "more\n"));
    assert!(!two.checkout.path("doomed").exists());
    let seen = two.checkout.seen();
    assert_eq!(seen[Path::new("link")], "link \"elsewhere\"");
    assert!(seen[Path::new("run.sh")].starts_with("file 775"), "{seen:?}");
    assert!(seen[Path::new("plain")].starts_with("file 664"), "{seen:?}");
    assert!(two.checkout.path("empty").is_dir());
}

#[test]
fn lines_of_both_sides_merge_unless_they_meet() {
    let two = Two::new();
    two.apply("sed -i 's/^1$/one/' lines", "sed -i 's/^9$/nine/' lines");
    let lines = fs::read_to_string(two.checkout.path("lines")).unwrap();
    assert_eq!(lines, "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
}

#[test]
fn a_directory_in_which_the_user_has_something_stays() {
    let two = Two::new();
    two.apply("rm -r doomed", "echo mine > doomed/mine");
    assert!(
        two.checkout.path("doomed/mine").exists() && !two.checkout.path("doomed/file").exists()
    );
}

#[test]
fn an_equal_change_on_both_sides_is_not_a_conflict() {
    let two = Two::new();
    two.apply(
        "echo new > plain; rm link; echo x > both",
        "echo new > plain; rm link; echo x > both",
    );
}

#[test]
fn conflicts_are_named_and_left_undecided() {
    for (in_worktree, in_checkout, path, why) in [
        (
            "sed -i 's/^5$/a/' lines",
            "sed -i 's/^5$/b/' lines",
            "lines",
            "changed in both, in the same lines",
        ),
        (
            "printf '\\0a' > binary",
            "printf '\\0b' > binary",
            "binary",
            "changed in both, in the same lines",
        ),
        (
            "rm plain",
            "echo mine > plain",
            "plain",
            "removed in the worktree, changed in the checkout",
        ),
        ("echo a > plain", "rm plain", "plain", "changed in the worktree, removed in the checkout"),
        ("echo a > new", "echo b > new", "new", "added in both, but different"),
        ("rm link; ln -s a link", "rm link; ln -s b link", "link", "changed in both"),
        (
            "echo x > doomed/new",
            "rm -r doomed; echo x > doomed",
            "doomed/new",
            "its directory is a file now",
        ),
        (
            "rm -r doomed",
            "rm -r doomed; echo mine > doomed",
            "doomed",
            "removed in the worktree, changed in the checkout",
        ),
        (
            "rm -r doomed; echo a > doomed",
            "echo mine > doomed/mine",
            "doomed",
            "a file in the worktree, but a directory with new content in the checkout",
        ),
    ] {
        let two = Two::new();
        let (_, merged) = two.merged(in_worktree, in_checkout);
        let conflicts = vec![Conflict { path: path.into(), why: why.to_owned() }];
        assert_eq!(merged.conflicts, conflicts, "{in_worktree} | {in_checkout}");
    }
}
