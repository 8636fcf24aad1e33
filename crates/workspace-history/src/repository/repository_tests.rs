use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use run_protocol::FindingKind;

use super::super::{LookedThrough, RepositoryError, irregular_opened_up};
use super::*;
use crate::audit::Looked;
use crate::test_tree::{TestTree, run};
use crate::{History, SnapshotName};

fn git() -> Git {
    Git::new("git".into(), None)
}

fn committed(init: &str) -> TestTree {
    committed_in(TestTree::new(), init)
}

fn committed_in(tree: TestTree, init: &str) -> TestTree {
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
fn a_link_or_a_special_file_is_unsound_wherever_git_looks() {
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
fn links_that_git_does_not_follow_are_ignored() {
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
    // Another directory with the same `.git` file is not its checkout.
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
fn only_the_named_worktree_is_forgotten() {
    let tree = committed("");
    tree.shell("git worktree add -q ../one && git worktree add -q ../two");
    let repository = Repository::at(&tree.workspace()).unwrap().unwrap();
    let beside = |name: &str| tree.workspace().parent().unwrap().join(name);
    repository.forget_worktree(&beside("one")).unwrap();
    repository.forget_worktree(&beside("nowhere")).unwrap();
    assert!(!tree.path(".git/worktrees/one").exists() && tree.path(".git/worktrees/two").exists());
    repository.forget_worktree(&beside("two")).unwrap();
    assert!(tree.path(".git/worktrees").exists(), "a run may protect it");
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

/// Returns a tree's refs from git.
fn refs_of(tree: &TestTree) -> String {
    tree.shell("git for-each-ref --format='%(refname) %(objectname)' > ../refs && git symbolic-ref HEAD >> ../refs");
    fs::read_to_string(tree.workspace().parent().unwrap().join("refs")).unwrap()
}

#[test]
fn refs_go_back_and_forth_in_files_and_in_tables() {
    let probe = TestTree::new();
    probe.shell("git init -q --ref-format=reftable 2> /dev/null || touch too-old");
    // A git version without reftables cannot create such a repository.
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
fn a_repository_that_lost_its_head_is_mended_and_its_branches_are_reported() {
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
    fn undo_restores_a_ref_only_if_it_is_where_the_run_left_it(
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
            // A redo then restores the other side.
            Verdict::Change => {
                prop_assert_eq!(now, from);
                prop_assert_eq!(decide(other, before, after, to), (now, Verdict::Change));
            }
            Verdict::Conflict => prop_assert!(now != to && now != from),
        }
    }
}

/// Runs `deed` in a thread without root's capabilities, so that file modes apply even if root runs the test.
fn as_an_ordinary_user<T: Send>(deed: impl FnOnce() -> T + Send) -> T {
    let without_rights = || {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective = rustix::thread::CapabilitySet::empty();
        rustix::thread::set_capabilities(None, sets).unwrap();
        deed()
    };
    std::thread::scope(|scope| scope.spawn(without_rights).join().unwrap())
}

fn paths_of(looked: &Looked, what: FindingKind) -> Vec<String> {
    let found = looked.found.iter().filter(|found| found.what == what);
    found.map(|found| found.path.0.display().to_string()).collect()
}

#[test]
fn a_directory_that_cannot_be_read_or_entered_is_unsound() {
    for (place, mode) in [("logs", 0o300), ("objects/info", 0o300), ("refs/heads", 0o600)] {
        let tree = committed("");
        tree.shell(&format!("mkdir -p .git/{place}"));
        tree.mode(&format!(".git/{place}"), mode);
        let said = as_an_ordinary_user(|| unsound(&tree));
        assert_eq!(said, format!("{place} is a directory that cannot be read"));
    }
    // Git does not look there.
    let tree = committed("");
    tree.shell("mkdir .git/annex; chmod 300 .git/annex");
    assert_eq!(as_an_ordinary_user(|| unsound(&tree)), "Ok(())");
}

#[test]
fn unreadable_branches_do_not_count_as_deleted() {
    let tree = committed("");
    tree.mode(".git/refs/heads", 0o300);
    let repository = Repository::at(&tree.workspace()).unwrap().unwrap();
    let problem = as_an_ordinary_user(|| repository.refs(&git()).unwrap_err());
    assert!(problem.to_string().starts_with("`refs/heads` cannot be read"), "{problem}");
}

#[test]
fn links_that_a_run_hides_in_closed_directories_are_removed_and_the_directories_opened_and_named() {
    let tree = committed("");
    let (history, run) = (tree.history(), run());
    tree.git("branch moved");
    tree.shell("git init -q sub");
    let before = refs_of(&tree);
    let gits = [TreePath::from(".git"), TreePath::from("sub/.git")];
    history.save_refs(run, None).unwrap();
    tree.git("commit -q --allow-empty -m two");
    tree.git("branch -f moved");
    tree.shell(
        "rm .git/logs/HEAD; ln -s /nowhere .git/logs/HEAD; mkfifo .git/objects/info/alternates",
    );
    tree.shell("mkdir .git/zz; ln -s /nowhere .git/zz/x; ln -s /nowhere sub/.git/logs; echo > .git/hooks/pre-push");
    tree.shell("chmod 300 .git/hooks .git/logs .git/objects/info .git/refs/heads; chmod 0 .git/refs .git/zz .git sub/.git");
    let mut looked = Looked::default();
    looked.gits = gits.to_vec();
    as_an_ordinary_user(|| history.end_refs(run, &mut looked).unwrap());
    assert_eq!(looked.incomplete, None);
    let mut closed = paths_of(&looked, FindingKind::GitClosed);
    closed.sort();
    let expected = [
        ".git",
        ".git/hooks",
        ".git/logs",
        ".git/objects/info",
        ".git/refs",
        ".git/refs/heads",
        ".git/zz",
        "sub/.git",
    ];
    assert_eq!(closed, expected);
    assert_eq!(paths_of(&looked, FindingKind::Hook), [".git/hooks/pre-push"]);
    let mut links = paths_of(&looked, FindingKind::GitLink);
    links.sort();
    assert_eq!(links, [".git/logs/HEAD", ".git/zz/x", "sub/.git/logs"]);
    assert_eq!(paths_of(&looked, FindingKind::GitSpecial), [".git/objects/info/alternates"]);
    assert_eq!(paths_of(&looked, FindingKind::RefMoved).len(), 2, "{:?}", looked.found);
    assert!(tree.path(".git/logs/HEAD").symlink_metadata().is_err());
    as_an_ordinary_user(|| {
        let plan = history.refs_kept(run).unwrap().unwrap().plan(&git(), RefsSide::BeforeRun);
        assert_eq!(plan.apply(&git()), RefsRestored::default());
    });
    assert_eq!(refs_of(&tree), before);
}

/// Makes nested directories, deeper than the longest path.
fn nest(directory: &Path, depth: usize) {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(directory, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_deep_directory_does_not_stop_the_cleanup_after_a_run() {
    let tree = committed_in(TestTree::in_memory(), "");
    let (history, run) = (tree.history(), run());
    history.save_refs(run, None).unwrap();
    nest(&tree.path(".git"), 60_000);
    tree.shell("rm .git/logs/HEAD; ln -s /nowhere .git/logs/HEAD");
    let mut looked = Looked::default();
    history.end_refs(run, &mut looked).unwrap();
    // The test's own clean-up does not go that deep.
    tree.shell("rm -rf .git/d");
    assert_eq!(paths_of(&looked, FindingKind::GitLink), [".git/logs/HEAD"]);
    assert_eq!(looked.incomplete, None);
}

#[test]
fn findings_from_before_the_deadline_are_kept() {
    let tree = committed("");
    tree.shell("ln -s /nowhere .git/x");
    let LookedThrough { found, problem, .. } =
        irregular_opened_up(&tree.path(".git"), Instant::now());
    assert_eq!(found.len(), 1);
    assert!(matches!(problem, Some(RepositoryError::TooMuch(_))), "{problem:?}");
}

#[test]
fn places_that_git_uses_come_before_others_and_shallow_ones_before_deep() {
    let tree = committed("");
    tree.shell("cd .git; for at in aa refs/heads/x logs objects zz modules/m; do mkdir -p $at; ln -s /nowhere $at/l; done");
    let found = irregular_opened_up(&tree.path(".git"), Instant::now() + LONGEST).found;
    let order: Vec<_> = found.iter().map(|(one, _)| one.path.to_string()).collect();
    assert_eq!(order[..2], ["logs/l", "refs/heads/x/l"]);
    assert_eq!(order[2..4], ["objects/l", "modules/m/l"]);
    assert_eq!(order.len(), 6);
}
