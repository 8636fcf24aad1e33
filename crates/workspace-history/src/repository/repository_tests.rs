use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::RepositoryError;
use super::*;
use crate::audit::Looked;
use crate::test_tree::{TestTree, run};
use crate::{History, SnapshotName};

fn git() -> Git {
    Git::new("git".into(), None)
}

fn committed(init: &str) -> TestTree {
    let tree = TestTree::new();
    tree.git(&format!("init -q {init}"));
    tree.write("a", "x");
    tree.git("add a");
    tree.git("commit -qm one");
    tree
}

fn unsound(tree: &TestTree) -> String {
    match Repository::around(&tree.workspace()).and_then(|found| found.unwrap().check()) {
        Err(RepositoryError::Unsound { path, what }) => {
            format!("{} is {what}", path.strip_prefix(tree.path(".git")).unwrap().display())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn git_finds_no_link_and_no_special_file_wherever_it_looks() {
    for place in
        ["refs/heads/x", "logs/HEAD", "objects/ab", "info/exclude", "index", "odd", "reftable"]
    {
        let tree = committed("");
        let path = tree.path(".git").join(place);
        fs::remove_file(&path).ok();
        symlink("/nowhere", &path).unwrap();
        assert_eq!(unsound(&tree), format!("{place} is a link"));
        fs::remove_file(&path).unwrap();
        tree.shell(&format!("mkfifo .git/{place}"));
        assert_eq!(unsound(&tree), format!("{place} is a FIFO"));
        assert!(matches!(git().command_in(&tree.workspace()), Err(GitError::Repository(_))));
    }
}

#[test]
fn links_that_git_is_not_led_by_are_nobodys_business() {
    let tree = committed("");
    tree.shell("rm -r .git/hooks; ln -s /nowhere .git/hooks; ln -s a@b.1 .git/.#COMMIT_EDITMSG");
    tree.shell(
        "mkdir -p .git/annex .git/modules/lib; ln -s /x .git/annex/x; ln -s /x .git/modules/lib/x",
    );
    assert_eq!(unsound(&tree), "Ok(())");
}

#[test]
fn a_repository_is_found_where_git_finds_it() {
    let tree = committed("");
    let root = tree.workspace();
    tree.shell("mkdir -p sub/empty/.git && git worktree add -q ../linked");
    let whole = Repository {
        root: root.clone(),
        git_dir: root.join(".git"),
        common_dir: root.join(".git"),
    };
    assert_eq!(Repository::around(&root.join("sub/empty")).unwrap(), Some(whole));
    let linked = root.parent().unwrap().join("linked");
    let found = Repository::at(&linked).unwrap().unwrap();
    assert_eq!((&found.common_dir, found.check_is_own().is_ok()), (&root.join(".git"), true));
    // Another directory that says the same is not its checkout.
    tree.shell("mkdir other && cp ../linked/.git other/.git");
    let other = Repository::at(&root.join("other")).unwrap().unwrap();
    assert!(matches!(other.check_is_own(), Err(RepositoryError::Foreign { .. })));
    tree.shell("echo 'gitdir: ../.git' > other/.git");
    let other = Repository::at(&root.join("other")).unwrap().unwrap();
    assert!(matches!(other.check_is_own(), Err(RepositoryError::Foreign { .. })));
    tree.shell("git config core.worktree ../other");
    assert!(other.check_is_own().is_ok(), "it says so itself");
    tree.shell("echo /elsewhere > .git/commondir");
    assert!(matches!(Repository::at(&root), Err(RepositoryError::CommonDir(_))));
}

#[test]
fn a_worktree_is_forgotten_and_no_other() {
    let tree = committed("");
    tree.shell("git worktree add -q ../one && git worktree add -q ../two");
    let repository = Repository::at(&tree.workspace()).unwrap().unwrap();
    let beside = |name: &str| tree.workspace().parent().unwrap().join(name);
    repository.forget_worktree(&beside("one")).unwrap();
    repository.forget_worktree(&beside("nowhere")).unwrap();
    assert!(!tree.path(".git/worktrees/one").exists() && tree.path(".git/worktrees/two").exists());
    repository.forget_worktree(&beside("two")).unwrap();
    assert!(tree.path(".git/worktrees").exists(), "a run may have it protected");
}

#[test]
fn no_ref_is_written_through_a_link() {
    let tree = committed("");
    let repository = Repository::at(&tree.workspace()).unwrap().unwrap();
    let commit = git().head(&tree.workspace()).unwrap().commit;
    repository.create_ref(&git(), "refs/heads/deep/er/made", &commit).unwrap();
    assert!(repository.create_ref(&git(), "refs/heads/deep/er/made", &commit).is_err());
    assert!(
        repository.create_ref(&git(), "refs/heads/deep", &commit).is_err(),
        "a directory to git"
    );
    let victim = tree.outside();
    fs::create_dir(&victim).unwrap();
    tree.link(&victim, ".git/refs/heads/caretaker");
    assert!(repository.create_ref(&git(), "refs/heads/caretaker/x", &commit).is_err());
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(!tree.path(".git/logs/refs/heads/deep").exists(), "there is no reflog");
}

/// The refs of a tree, as git says it.
fn refs_of(tree: &TestTree) -> String {
    tree.shell("git for-each-ref --format='%(refname) %(objectname)' > ../refs && git symbolic-ref HEAD >> ../refs");
    fs::read_to_string(tree.workspace().parent().unwrap().join("refs")).unwrap()
}

#[test]
fn refs_go_back_and_forth_in_files_and_in_tables() {
    let probe = TestTree::new();
    probe.shell("git init -q --ref-format=reftable 2> /dev/null || touch too-old");
    // A git that knows no tables has none to be asked about.
    let kinds: &[&str] =
        if probe.path("too-old").exists() { &[""] } else { &["", "--ref-format=reftable"] };
    for init in kinds {
        let tree = committed(init);
        let (history, run) = (History { git: git(), ..tree.history() }, run());
        tree.git("branch packed");
        tree.git("pack-refs --all");
        tree.git("branch loose");
        tree.git("branch moved");
        tree.git("tag v1");
        let before = refs_of(&tree);
        let seen = tree.save(&SnapshotName::before(run)).snapshot;
        history.save_refs(run, Some(&seen)).unwrap();
        tree.git("commit -q --allow-empty -m two");
        tree.git("branch -f moved");
        tree.git("branch -D packed loose");
        tree.git("tag -d v1");
        tree.shell("git checkout -q moved");
        let mut looked = Looked::default();
        history.end_refs(run, &mut looked).unwrap();
        assert_eq!((looked.found.len(), &looked.incomplete), (6, &None), "{init}");
        let after = refs_of(&tree);
        for _ in 0..2 {
            for (side, expected) in [(RefsSide::BeforeRun, &before), (RefsSide::AfterRun, &after)] {
                let plan = history.refs_kept(run).unwrap().unwrap().plan(&git(), side);
                assert_eq!((plan.changes.len(), plan.conflicts.len()), (6, 0), "{init}");
                assert_eq!(plan.apply(&git()), RefsRestored::default(), "{init}");
                assert_eq!(&refs_of(&tree), expected, "{init}");
            }
        }
    }
}

#[test]
fn a_ref_whose_commit_is_gone_is_left_alone() {
    let tree = committed("");
    let (history, run) = (tree.history(), run());
    tree.git("commit -q --allow-empty -m two");
    history.save_refs(run, None).unwrap();
    tree.git("reset -q --hard HEAD~");
    tree.shell("rm -r .git/logs .git/ORIG_HEAD && git prune --expire=now");
    history.end_refs(run, &mut Looked::default()).unwrap();
    let plan = history.refs_kept(run).unwrap().unwrap().plan(&git(), RefsSide::BeforeRun);
    let outcome = plan.apply(&git());
    assert_eq!(outcome.failed.len(), 1);
    assert_eq!(outcome.failed[0].1, "its commit is gone");
}

#[test]
fn a_repository_that_lost_what_makes_it_one_is_mended_and_its_branches_are_told() {
    let tree = committed("");
    let (history, run) = (tree.history(), run());
    tree.git("branch other");
    let before = refs_of(&tree);
    history.save_refs(run, None).unwrap();
    tree.shell("rm -r .git/refs .git/HEAD");
    let mut looked = Looked::default();
    history.end_refs(run, &mut looked).unwrap();
    assert_eq!(looked.incomplete, None);
    assert_eq!(looked.found.len(), 2, "{:?}", looked.found);
    let plan = history.refs_kept(run).unwrap().unwrap().plan(&git(), RefsSide::BeforeRun);
    assert_eq!(plan.apply(&git()), RefsRestored::default());
    assert_eq!(refs_of(&tree), before);
}

proptest! {
    #[test]
    fn undo_takes_a_ref_back_only_from_where_the_run_left_it(
        before in 0u8..3, after in proptest::option::of(0u8..3), now in proptest::option::of(0u8..3),
        is_back: bool,
    ) {
        let text = |value: u8| ["a", "b", "c"][usize::from(value)];
        let (before, after, now) = (text(before), after.map(text), now.map(text));
        prop_assume!(after != Some(before));
        let (side, other) = match is_back {
            true => (RefsSide::BeforeRun, RefsSide::AfterRun),
            false => (RefsSide::AfterRun, RefsSide::BeforeRun),
        };
        let (to, verdict) = decide(side, before, after, now);
        let (from, _) = decide(other, before, after, now);
        prop_assert_ne!(to, from);
        match verdict {
            Verdict::AsItShould => prop_assert_eq!(now, to),
            // And the way back leads where it was.
            Verdict::Change => {
                prop_assert_eq!(now, from);
                prop_assert_eq!(decide(other, before, after, to), (now, Verdict::Change));
            }
            Verdict::Conflict => prop_assert!(now != to && now != from),
        }
    }
}
