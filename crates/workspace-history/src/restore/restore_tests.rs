use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::test_deeds::{act, deed};
use crate::test_tree::{AMPLE, TestTree, odd_name, run};
use crate::{Scope, SnapshotName};

#[test]
fn everything_is_restored_and_the_restore_can_be_undone() {
    let tree = TestTree::new();
    tree.write("changed", "old");
    tree.write("removed/deep/file", "old");
    tree.write("mode", "x");
    tree.mode("mode", 0o640);
    tree.write("secret", "x");
    tree.mode("secret", 0o600);
    tree.write("becomes-directory", "x");
    tree.write("becomes-link/inside", "x");
    tree.write("big", vec![7; 3 << 20]);
    tree.link("changed", "link");
    tree.link("/nowhere", "dangling");
    tree.shell("mkdir empty shut-off && mkfifo pipe && mkfifo old-pipe");
    tree.mode("shut-off", 0o500);
    fs::write(tree.workspace().join(odd_name()), "odd").unwrap();
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    let seen_before = tree.seen();

    tree.write("changed", "new");
    tree.write("added/deep", "new");
    tree.shell(
        "rm -r removed empty becomes-directory becomes-link link old-pipe; \
         chmod 755 mode shut-off; chmod 777 secret; mkdir becomes-directory; echo x > becomes-directory/y; \
         ln -s / becomes-link; ln -s elsewhere link; mkfifo new-pipe; mkdir new-empty; echo x > shut-off/new",
    );
    tree.write("big", vec![8; 3 << 20]);
    fs::remove_file(tree.workspace().join(odd_name())).unwrap();
    let seen_after = tree.seen();

    let after = tree.put_back(&before, run);
    assert_eq!(tree.seen(), seen_before);
    tree.put_back(&after, run);
    assert_eq!(tree.seen(), seen_after);
}

/// Enough files for several workers: in one directory, in its subdirectories, and some that cannot be created.
#[test]
fn files_that_several_workers_make_are_exact_and_each_failure_is_named_once() {
    let tree = TestTree::new();
    let path = |number: usize| match number % 3 {
        0 => format!("all/f{number}"),
        1 => format!("all/d{}/deep/f{number}", number % 40),
        _ => format!("f{number}"),
    };
    for number in 0..4 * SMALLEST_SHARE {
        tree.write(&path(number), format!("old {number}").repeat(number % 50));
    }
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    let seen_before = tree.seen();
    tree.shell("for f in f*; do echo new > $f; done; rm -r all; echo more > more");
    let seen_after = tree.seen();

    let after = tree.put_back(&before, run);
    assert_eq!(tree.seen(), seen_before);
    tree.put_back(&after, run);
    assert_eq!(tree.seen(), seen_after);

    let present = tree.save(&SnapshotName::seen(run)).snapshot;
    // The store lacks the content of two files in the first share and two in the last.
    let mut target = before.clone();
    let lost = ["all/d1/deep/f1", "f998"].map(TreePath::from);
    for path in &lost {
        let kind = EntryKind::File { size: 1, id: "0".repeat(40) };
        target.entries.get_mut(path).unwrap().kind = kind;
    }
    let outcome = restore(&tree.history(), &present, &target).unwrap();
    let failed: Vec<&TreePath> = outcome.failed.iter().map(|(path, _)| path).collect();
    assert_eq!(failed, lost.iter().collect::<Vec<_>>());
    assert_eq!(fs::read_to_string(tree.path("f998")).unwrap(), "new\n");
    for number in (0..4 * SMALLEST_SHARE).filter(|number| ![1, 998].contains(number)) {
        let content = fs::read_to_string(tree.path(&path(number))).unwrap();
        assert_eq!(content, format!("old {number}").repeat(number % 50), "{number}");
    }
}

#[test]
fn links_that_lead_out_of_the_workspace_are_replaced_and_not_followed() {
    let tree = TestTree::new();
    tree.write("directory/file", "ours");
    tree.write("file", "ours");
    tree.write("gone/deep/file", "ours");
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    let seen = tree.seen();

    let outside = tree.outside();
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("file"), "theirs").unwrap();
    fs::write(outside.join("deep/file"), "theirs").unwrap();
    fs::write(outside.join("victim"), "theirs").unwrap();
    fs::set_permissions(outside.join("victim"), fs::Permissions::from_mode(0o600)).unwrap();
    tree.shell("rm -r directory gone file");
    tree.link(&outside, "directory");
    tree.link(outside.join("victim"), "file");
    tree.link(&outside, "gone");
    let after = tree.put_back(&before, run);
    assert_eq!(tree.seen(), seen);
    let theirs = || {
        let mut seen = crate::test_tree::Seen::new();
        crate::test_tree::look(&outside, &outside, &mut seen);
        seen
    };
    let untouched = theirs();
    tree.put_back(&after, run);
    tree.put_back(&before, run);
    assert_eq!(theirs(), untouched);
    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "theirs");
}

#[test]
fn files_that_were_ignored_are_never_removed_whatever_the_rules_say_now() {
    let tree = TestTree::new();
    tree.write(".gitignore", "target/\n.env\n");
    tree.write("target/out", "precious");
    tree.write(".env", "KEY=1");
    tree.write("kept", "x");
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;

    // The run drops the rules, so that everything looks like its own, and hides its own files behind new rules.
    tree.write(".gitignore", "*.hidden\n");
    tree.write("new.hidden", "x");
    tree.write("target/more", "x");
    tree.write("new/file", "x");
    let after = tree.put_back(&before, run);
    let names: Vec<String> = tree.seen().keys().map(|path| path.display().to_string()).collect();
    assert_eq!(names, [".env", ".gitignore", "kept", "target", "target/more", "target/out"]);
    tree.put_back(&after, run);
    assert!(tree.path("new.hidden").exists() && tree.path("new/file").exists());
}

#[test]
fn an_ignored_directory_that_replaced_a_file_is_removed() {
    let tree = TestTree::new();
    tree.write(".gitignore", "out/\n");
    tree.write("out", "a file, so the rule does not apply");
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    let seen = tree.seen();
    tree.shell("rm out && mkdir -p out/deep && echo x > out/deep/y");
    let seen_after = tree.seen();
    let after = tree.put_back(&before, run);
    assert_eq!(tree.seen(), seen);
    tree.put_back(&after, run);
    assert_eq!(tree.seen(), seen_after);
}

#[test]
fn repositories_are_left_alone_and_named() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write("file", "x");
    tree.git("add file");
    tree.git("commit -qm one");
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    assert!(before.head.as_ref().is_some_and(|head| head.branch.as_deref() == Some("main")));
    let git_before = git_files(&tree);

    tree.write("file", "y");
    tree.shell("git init -q new && echo x > new/file");
    let history = tree.history();
    let name = history.next_replaced(run);
    let present = history.save(&name, Scope::As(&before), &[], AMPLE).unwrap().snapshot;
    assert_eq!(present.left_out, ["new/.git".into()]);
    let outcome = restore(&history, &present, &before).unwrap();
    assert_eq!(outcome, Restored { left: vec!["new".into()], failed: Vec::new() });
    assert!(tree.path("new/.git/HEAD").exists() && !tree.path("new/file").exists());
    assert_eq!(git_files(&tree), git_before);
}

#[test]
fn a_repository_that_a_run_made_goes_with_it_and_comes_back_with_it() {
    let tree = TestTree::new();
    tree.git("init -q");
    tree.write("file", "x");
    tree.shell("git init -q mine && echo mine > mine/.git/description");
    let run = run();
    let before = tree.save(&SnapshotName::before(run)).snapshot;
    let seen = tree.seen();
    // A spelling that git treats as `.git` on case-insensitive file systems; a file that names another directory; a
    // bare repository.
    tree.shell(
        "git init -q new && echo .git > new/.gitignore && cd new \
         && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && cd .. \
         && echo evil > new/.git/hooks/pre-commit && chmod +x new/.git/hooks/pre-commit \
         && mkdir -p odd/.GIT/objects file-like && echo 'gitdir: ../new/.git' > file-like/.git \
         && git init -q --bare bare && ln -s ../new/.git odd/.git",
    );
    let seen_after = tree.seen();
    let history = tree.history();
    let name = SnapshotName::after(run);
    let after = history.save(&name, Scope::LookAs(&before), &[], AMPLE).unwrap().snapshot;
    let made = crate::repositories_made(&before, &after);
    let listed: Vec<String> = made.iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["file-like/.git", "new/.git", "odd/.GIT", "odd/.git"]);
    // A repository that came after the run stays.
    tree.shell("git init -q later");

    let with =
        |is_only_a_look| Scope::With { earlier: &before, repositories: &made, is_only_a_look };
    let save =
        |scope| history.save(&history.next_replaced(run), scope, &[], AMPLE).unwrap().snapshot;
    let present = save(with(false));
    let outcome = restore(&history, &present, &before).unwrap();
    assert_eq!(outcome, Restored { left: vec!["later".into()], failed: Vec::new() });
    tree.shell("rm -r later");
    assert_eq!(tree.seen(), seen);

    let without = save(with(false));
    assert_eq!(restore(&history, &without, &present).unwrap(), Restored::default());
    tree.shell("rm -r later");
    assert_eq!(tree.seen(), seen_after);
    let again = save(with(false));
    assert_eq!(restore(&history, &again, &before).unwrap(), Restored::default());
    assert_eq!(tree.seen(), seen);
}

#[test]
fn an_undo_never_removes_files_that_could_not_be_read_before_the_run() {
    let tree = TestTree::new();
    tree.write("none", "mine");
    tree.write("locked/deep/file", "mine");
    tree.write("plain", "x");
    let run = run();
    let mut before = tree.save(&SnapshotName::before(run)).snapshot;
    // This is the view of an ordinary user if `none` and `locked` have mode 0. Root reads everything.
    before.left_out = vec!["locked".into(), "none".into()];
    before.entries.retain(|path, _| {
        *path == "locked".into() || !before.left_out.iter().any(|out| path.is_within(out))
    });
    tree.write("locked/new", "of the run");
    tree.write("none-at-all", "of the run");
    tree.write("plain", "y");
    tree.put_back(&before, run);
    let seen: Vec<String> = tree.seen().keys().map(|path| path.display().to_string()).collect();
    let kept = ["locked", "locked/deep", "locked/deep/file", "locked/new", "none", "plain"];
    assert_eq!(seen, kept);
    assert_eq!(fs::read_to_string(tree.path("plain")).unwrap(), "x");
}

fn git_files(tree: &TestTree) -> crate::test_tree::Seen {
    let mut seen = crate::test_tree::Seen::new();
    let git = tree.path(".git");
    crate::test_tree::look(&git, &git, &mut seen);
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn undo_and_redo_are_exact_for_any_changes_by_a_run(
        first in proptest::collection::vec(deed(), 0..40),
        second in proptest::collection::vec(deed(), 0..40),
    ) {
        let tree = TestTree::new();
        first.iter().for_each(|deed| act(&tree, deed));
        let run = run();
        let before = tree.save(&SnapshotName::before(run)).snapshot;
        let seen_before = tree.seen();
        second.iter().for_each(|deed| act(&tree, deed));
        let seen_after = tree.seen();

        let after = tree.put_back(&before, run);
        prop_assert_eq!(&tree.seen(), &seen_before);
        tree.put_back(&after, run);
        prop_assert_eq!(&tree.seen(), &seen_after);
        tree.put_back(&before, run);
        prop_assert_eq!(&tree.seen(), &seen_before);
    }
}
