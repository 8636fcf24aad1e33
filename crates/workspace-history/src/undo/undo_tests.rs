use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::history::SnapshotName;
use crate::restore::{Restored, restore};
use crate::test_deeds::{act, deed};
use crate::test_tree::{AMPLE, Seen, TestTree, run};
use crate::{Conflict, Scope};

/// A workspace that a run changed.
struct Stage {
    tree: TestTree,
    run: RunId,
    before: Snapshot,
    after: Snapshot,
    seen_before: Seen,
    seen_after: Seen,
}

/// The result of an undo.
struct Done {
    replaced: Snapshot,
    restored: Snapshot,
    merged: Vec<String>,
    conflicts: Vec<(String, String)>,
}

impl Stage {
    fn new(prepare: impl FnOnce(&TestTree), act: impl FnOnce(&TestTree)) -> Self {
        let tree = TestTree::new();
        prepare(&tree);
        let run = run();
        let before = tree.save(&SnapshotName::before(run)).snapshot;
        let seen_before = tree.seen();
        act(&tree);
        let seen_after = tree.seen();
        let scope = Scope::LookAs(&before);
        let name = SnapshotName::after(run);
        let after = tree.history().save(&name, scope, &[], AMPLE).unwrap().snapshot;
        Self { tree, run, before, after, seen_before, seen_after }
    }

    fn scripts(prepare: &str, run: &str) -> Self {
        Self::new(|tree| tree.shell(prepare), |tree| tree.shell(run))
    }

    fn present(&self, earlier: &Snapshot, repositories: &[TreePath]) -> Snapshot {
        let history = self.tree.history();
        let scope = Scope::With { earlier, repositories, is_only_a_look: false };
        let name = history.next_replaced(self.run);
        history.save(&name, scope, &[], AMPLE).unwrap().snapshot
    }

    fn carry_out(&self, replaced: Snapshot, plan: MergePlan) -> Done {
        let history = self.tree.history();
        let outcome = restore(&history, &replaced, &plan.target).unwrap();
        assert_eq!(outcome, Restored::default());
        let text = |conflict: &Conflict| (conflict.path.to_string(), conflict.why.clone());
        Done {
            replaced,
            restored: plan.target,
            merged: plan.merged.iter().map(ToString::to_string).collect(),
            conflicts: plan.conflicts.iter().map(text).collect(),
        }
    }

    /// Undoes the run, and leaves conflicts alone.
    fn undo(&self, redone: &[(Snapshot, Snapshot)]) -> Done {
        let undo = Undo { base: &self.after, goal: &self.before, end: Some(&self.after), redone };
        let present = self.present(&self.before, &undo.repositories());
        let plan = undo.plan(&self.tree.history(), &present).unwrap();
        self.carry_out(present, plan)
    }

    fn reverse(&self, done: &Done) -> Done {
        let (replaced, restored) = (&done.replaced, &done.restored);
        let reversal = Reversal { replaced, restored, since: "the undo" };
        let present = self.present(&reversal.cover(), &reversal.repositories());
        let plan = reversal.plan(&self.tree.history(), None, &present).unwrap();
        self.carry_out(present, plan)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.tree.path(path)).unwrap()
    }
}

#[test]
fn changes_after_the_run_stay_and_a_redo_brings_back_exactly_what_the_undo_removed() {
    let stage = Stage::scripts(
        "mkdir old; echo 1 > old/a; echo 1 > changed; ln -s a link; echo x > file; mkdir directory; echo x > directory/y",
        "rm -r old directory file; mkdir file; echo 2 > file/in; echo 2 > changed; rm link; ln -s b link; mkdir new; \
         echo 2 > new/b; mkdir empty; echo 2 > directory; chmod 700 changed",
    );
    stage.tree.shell("echo mine > mine; mkdir mine.d; echo mine > new/mine");
    let seen_present = stage.tree.seen();
    let done = stage.undo(&[]);
    assert_eq!((done.conflicts.as_slice(), done.merged.as_slice()), (&[][..], &[][..]));
    let mut expected = stage.seen_before.clone();
    for path in ["mine", "mine.d", "new", "new/mine"] {
        expected.insert(path.into(), seen_present[Path::new(path)].clone());
    }
    assert_eq!(stage.tree.seen(), expected);
    assert!(stage.undo(&[]).restored.has_same_entries_as(&done.restored), "once is enough");

    stage.tree.shell("rm mine; echo later > later; mkdir new/later");
    let redone = stage.reverse(&done);
    assert_eq!(redone.conflicts, []);
    let mut expected = seen_present;
    expected.remove(Path::new("mine"));
    let now = stage.tree.seen();
    for path in ["later", "new/later"] {
        expected.insert(path.into(), now[Path::new(path)].clone());
    }
    assert_eq!(now, expected);
}

#[test]
fn a_conflict_is_named_and_stays_and_the_rest_is_undone() {
    let prepare = "seq 9 > lines; printf '\\0a' > binary; echo x > gone; echo x > edited; ln -s a link; echo x > mode; \
        chmod 600 mode; echo x > out; mkdir -p deep/down; echo x > deep/down/file; echo x > rest";
    for (by_run, later, path, why) in [
        (
            "sed -i s/5/five/ lines",
            "sed -i s/five/V/ lines",
            "lines",
            "changed after the run, in the same lines",
        ),
        (
            "printf '\\0b' > binary",
            "printf '\\0c' > binary",
            "binary",
            "changed after the run, in the same lines",
        ),
        ("rm gone", "echo mine > gone", "gone", "removed by the run and made again after it"),
        ("echo y > edited", "rm edited", "edited", "changed by the run and removed after it"),
        ("echo y > made", "echo mine > made", "made", "made by the run and changed after it"),
        ("mkdir made", "rmdir made; echo x > made", "made", "made by the run and changed after it"),
        ("ln -sf b link", "ln -sf c link", "link", "changed after the run"),
        ("echo y > edited", "rm edited; mkdir edited", "edited", "changed after the run"),
        ("chmod 644 mode", "chmod 640 mode", "mode", "its mode changed after the run"),
        (
            "rm out; mkdir out; echo y > out/of",
            "echo mine > out/mine",
            "out",
            "something was put into it after the run",
        ),
        (
            "rm deep/down/file",
            "rm -r deep/down; echo mine > deep/down",
            "deep/down/file",
            "its directory is a file now",
        ),
    ] {
        let stage = Stage::scripts(prepare, &format!("{by_run}; echo y > rest"));
        stage.tree.shell(later);
        let mut expected = stage.tree.seen();
        let done = stage.undo(&[]);
        assert_eq!(done.conflicts, [(path.to_owned(), why.to_owned())], "{by_run} | {later}");
        expected.insert("rest".into(), stage.seen_before[Path::new("rest")].clone());
        expected.remove(Path::new("out/of"));
        assert_eq!(stage.tree.seen(), expected, "{by_run} | {later}");
        let redone = stage.reverse(&done);
        assert_eq!(redone.conflicts, []);
    }
}

#[test]
fn content_and_mode_are_undone_separately() {
    let stage = Stage::scripts("seq 9 > a; seq 9 > b; chmod 644 a b", "chmod 755 a; seq 10 > b");
    stage.tree.shell("seq 12 > a; chmod 600 b");
    let done = stage.undo(&[]);
    assert_eq!((done.conflicts.as_slice(), done.merged.len()), (&[][..], 2));
    let seen = stage.tree.seen();
    assert!(
        seen[Path::new("a")].starts_with("file 644 1\\n2") && stage.read("a").ends_with("12\n")
    );
    assert!(seen[Path::new("b")].starts_with("file 600") && stage.read("b").ends_with("\n9\n"));
}

#[test]
fn a_repository_goes_unless_the_user_worked_in_it() {
    let git = "git -C new -c user.name=a -c user.email=a@b";
    let by_run = format!("git init -q new; echo x > new/f; {git} add f; {git} commit -qm one");
    for (later, is_of_user) in [
        // Git writes its index even if the user only asks for the status.
        (
            format!(
                "touch -d yesterday new/f; {git} status > /dev/null; test new/.git/index -nt new/.git/HEAD"
            ),
            false,
        ),
        (format!("{git} commit -q --allow-empty -m mine"), true),
        (format!("echo mine > new/f; {git} add f"), true),
        (format!("{git} config core.editor mine"), true),
    ] {
        let stage = Stage::scripts("true", &by_run);
        stage.tree.shell(&later);
        let done = stage.undo(&[]);
        let conflicts: Vec<&str> = done.conflicts.iter().map(|(path, _)| path.as_str()).collect();
        let has_it = stage.tree.path("new/.git/HEAD").exists();
        assert_eq!((conflicts.contains(&"new/.git"), has_it), (is_of_user, is_of_user), "{later}");
        if !is_of_user {
            assert_eq!(stage.tree.seen(), stage.seen_before);
        }
    }
}

#[test]
fn a_repository_that_a_redo_brought_back_is_undone_again() {
    let stage = Stage::scripts("true", "git init -q new; echo x > new/f");
    let done = stage.undo(&[]);
    assert_eq!((done.conflicts.as_slice(), &stage.tree.seen()), (&[][..], &stage.seen_before));
    let redone = stage.reverse(&done);
    assert_eq!((redone.conflicts.as_slice(), &stage.tree.seen()), (&[][..], &stage.seen_after));
    let pairs = [(redone.replaced, redone.restored)];
    let again = stage.undo(&pairs);
    assert_eq!((again.conflicts.as_slice(), &stage.tree.seen()), (&[][..], &stage.seen_before));
    // Another repository in its place belongs to the user.
    stage.tree.shell("git init -q new; echo mine > new/.git/description");
    let redone = stage.reverse(&again);
    let why = "this repository changed after the undo".to_owned();
    assert_eq!(redone.conflicts, [("new/.git".to_owned(), why)]);
    assert_eq!(stage.read("new/.git/description"), "mine\n");
    assert_eq!(stage.read("new/f"), "x\n");
}

#[test]
fn a_file_that_was_unreadable_when_the_run_ended_is_undone_if_it_is_unchanged() {
    for is_changed_later in [false, true] {
        let mut stage = Stage::scripts("mkdir d; echo 1 > d/f", "echo 2 > d/f");
        // This is the view of an ordinary user if the run set the mode of `d` to 0. Root reads everything.
        stage.after.entries.remove(&"d/f".into());
        stage.after.left_out = vec!["d".into()];
        if is_changed_later {
            stage.tree.shell("echo 3 > d/f");
        }
        let done = stage.undo(&[]);
        assert_eq!(done.conflicts.len(), usize::from(is_changed_later), "{:?}", done.conflicts);
        assert_eq!(stage.read("d/f"), if is_changed_later { "3\n" } else { "1\n" });
    }
}

#[test]
fn an_undo_that_died_is_finished_and_leaves_nothing_behind() {
    let stage = Stage::scripts(
        "echo 1 > a; echo 1 > b; echo 1 > c",
        "echo 2 > a; echo 2 > b; rm c; echo 2 > d",
    );
    let undo = Undo { base: &stage.after, goal: &stage.before, end: None, redone: &[] };
    let replaced = stage.present(&stage.before, &[]);
    let plan = undo.plan(&stage.tree.history(), &replaced).unwrap();
    // The undo died after it removed `a` and before it restored `a`, and the user continued to work.
    stage.tree.shell("rm a d; echo half > .caretaker-restoring-99; echo mine > mine");
    let unfinished = Unfinished { replaced: &replaced, restored: &plan.target };
    let present = stage.present(&unfinished.cover(), &[]);
    let rest = unfinished.plan(&stage.tree.history(), &present).unwrap();
    let done = stage.carry_out(present, rest);
    assert_eq!(done.conflicts, []);
    let mut seen = stage.tree.seen();
    assert!(seen.remove(Path::new("mine")).is_some());
    assert_eq!(seen, stage.seen_before);
}

#[test]
fn the_standing_undo_follows_from_all_undos_and_redos() {
    let (run, other) = (run(), run());
    let operation = |run: RunId, kind, goal: Option<SnapshotName>| {
        let replaced = SnapshotName::replaced(run, 1);
        let restored = replaced.restored();
        Operation { at: 0, run, kind, replaced, restored, goal }
    };
    let (before, mark) = (SnapshotName::before(run), SnapshotName::marked(run, 1));
    let undo = |goal: &SnapshotName| operation(run, OperationKind::Undo, Some(goal.clone()));
    let redo = || operation(run, OperationKind::Redo, None);
    let stands = |operations: &[Operation], run| {
        standing(operations, run).map(|operation| operation.goal().clone())
    };
    assert_eq!(stands(&[], run), None);
    assert_eq!(stands(&[undo(&mark)], run), Some(mark.clone()));
    assert_eq!(stands(&[undo(&mark), undo(&before)], run), Some(before.clone()));
    assert_eq!(stands(&[undo(&mark), undo(&before), redo()], run), Some(mark.clone()));
    assert_eq!(stands(&[undo(&before), redo()], run), None);
    assert_eq!(stands(&[undo(&before), redo(), redo()], run), Some(before.clone()));
    assert_eq!(stands(&[undo(&before)], other), None);
    // Older versions write this form.
    let old = Operation { restored: before.clone(), goal: None, ..undo(&before) };
    assert_eq!(stands(&[old], run), Some(before));
}

#[test]
fn paths_that_an_undo_to_a_checkpoint_left_alone_stay_in_the_base() {
    let mut stage = Stage::scripts("seq 9 > merged; seq 9 > left; seq 9 > clean", "seq 9 > other");
    stage.tree.shell("sed -i s/1/one/ merged left clean");
    let mark = stage.tree.save(&SnapshotName::marked(stage.run, 1)).snapshot;
    stage.tree.shell("sed -i s/9/nine/ merged left clean");
    stage.after = stage.tree.save(&SnapshotName::after(stage.run)).snapshot;
    stage.tree.shell("sed -i s/5/five/ merged; sed -i s/nine/IX/ left");
    let history = stage.tree.history();
    let end = Some(&stage.after);
    let undo = Undo { base: &stage.after, goal: &mark, end, redone: &[] };
    let present = stage.present(&mark, &[]);
    let plan = undo.plan(&history, &present).unwrap();
    let done = stage.carry_out(present, plan);
    assert_eq!((done.conflicts.len(), done.merged.len()), (1, 1));
    // The user reverts their change, and an undo then reverts the rest of the run.
    stage.tree.shell("sed -i s/IX/nine/ left");
    let base = base_after_undo(&stage.after, &mark, &done.replaced, &done.restored);
    let undo = Undo { base: &base, goal: &stage.before, end, redone: &[] };
    let present = stage.present(&stage.before, &[]);
    let plan = undo.plan(&history, &present).unwrap();
    assert_eq!(stage.carry_out(present, plan).conflicts, []);
    assert_eq!(stage.read("merged"), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    let numbers = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    assert_eq!((stage.read("left").as_str(), stage.read("clean").as_str()), (numbers, numbers));
}

/// Kind, mode and content.
fn parts(seen: &str) -> (&str, &str, &str) {
    let mut words = seen.splitn(3, ' ');
    let mut next = || words.next().unwrap_or_default();
    (next(), next(), next())
}

fn one_of<'a>(base: &'a str, theirs: &'a str, ours: &'a str) -> Option<&'a str> {
    match () {
        () if base == ours => Some(theirs),
        () if base == theirs || ours == theirs => Some(ours),
        () => None,
    }
}

/// Checks three states path by path, without knowing how the undo works.
fn check(
    [base, theirs, ours, result]: [&Seen; 4],
    conflicts: &[(String, String)],
) -> Result<(), TestCaseError> {
    let conflicts: BTreeSet<PathBuf> = conflicts.iter().map(|(path, _)| path.into()).collect();
    let is_directory =
        |seen: Option<&String>| seen.is_some_and(|seen| parts(seen).0 == "directory");
    let paths: BTreeSet<&PathBuf> =
        [base, theirs, ours, result].into_iter().flat_map(Seen::keys).collect();
    for path in paths {
        let [from, to, is, became] = [base, theirs, ours, result].map(|seen| seen.get(path));
        let holds_something =
            || result.keys().any(|other| other != path && other.starts_with(path));
        let is_fine = if conflicts.contains(path) || from == to {
            // The path is unchanged, or a directory that contains something restored.
            became == is
                || (is.is_none() && is_directory(became) && became == to && holds_something())
        } else if is == to {
            became == to
        } else if is == from {
            became == to || (to.is_none() && is_directory(became) && holds_something())
        } else {
            match (from, to, is) {
                (_, None, Some(_)) if is_directory(is) && is_directory(from) => {
                    became == if holds_something() { is } else { None }
                }
                (None, Some(_), Some(_)) => is_directory(is) && is_directory(to) && became == is,
                (Some(from), Some(to), Some(is)) => {
                    let (from, to, is) = (parts(from), parts(to), parts(is));
                    let mode = one_of(from.1, to.1, is.1);
                    let content = one_of(from.2, to.2, is.2);
                    from.0 == to.0
                        && to.0 == is.0
                        && became.map(|became| parts(became)).is_some_and(|became| {
                            Some(became.1) == mode && Some(became.2) == content
                        })
                }
                _ => false,
            }
        };
        prop_assert!(is_fine, "{path:?}: {from:?} -> {to:?}, {is:?} became {became:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn only_a_runs_own_changes_are_undone_and_nothing_else_is_lost(
        prepare in proptest::collection::vec(deed(), 0..40),
        by_run in proptest::collection::vec(deed(), 0..20),
        by_user in proptest::collection::vec(deed(), 0..10),
        by_second_run in proptest::collection::vec(deed(), 0..10),
        after_undo in proptest::collection::vec(deed(), 0..6),
    ) {
        let all = |deeds: &[crate::test_deeds::Deed], tree: &TestTree| {
            deeds.iter().for_each(|deed| act(tree, deed));
        };
        let stage = Stage::new(|tree| all(&prepare, tree), |tree| all(&by_run, tree));
        all(&by_user, &stage.tree);
        all(&by_second_run, &stage.tree);
        let present = stage.tree.seen();
        let done = stage.undo(&[]);
        let undone = stage.tree.seen();
        check([&stage.seen_after, &stage.seen_before, &present, &undone], &done.conflicts)?;

        let redone = stage.reverse(&done);
        prop_assert_eq!(&redone.conflicts, &[]);
        prop_assert_eq!(&stage.tree.seen(), &present);
        stage.reverse(&redone);
        prop_assert_eq!(&stage.tree.seen(), &undone);

        all(&after_undo, &stage.tree);
        let later = stage.tree.seen();
        let redone = stage.reverse(&done);
        check([&undone, &present, &later, &stage.tree.seen()], &redone.conflicts)?;
    }

    #[test]
    fn the_runs_lines_go_and_the_users_lines_stay(
        by_run in proptest::collection::btree_set(0_usize..24, 1..4),
        by_user in proptest::collection::btree_set(0_usize..24, 1..4),
    ) {
        let text = |words: [(&BTreeSet<usize>, &str); 2]| -> String {
            let word = |line: usize| {
                let found = words.iter().find(|(lines, _)| lines.contains(&line));
                found.map_or("line", |(_, word)| word)
            };
            (0..24).map(|line| format!("{} {line}\n", word(line))).collect()
        };
        let none = BTreeSet::new();
        let stage = Stage::new(
            |tree| tree.write("file", text([(&none, ""), (&none, "")])),
            |tree| tree.write("file", text([(&by_run, "run"), (&none, "")])),
        );
        // If both changed a line, the user changed it last.
        let present = text([(&by_user, "user"), (&by_run, "run")]);
        stage.tree.write("file", &present);
        let done = stage.undo(&[]);
        let became = stage.read("file");
        let is_apart = by_run.iter().all(|one| by_user.iter().all(|two| one.abs_diff(*two) > 1));
        let is_same_line = !by_run.is_disjoint(&by_user);
        match done.conflicts.is_empty() {
            true => {
                prop_assert!(!is_same_line);
                prop_assert_eq!(became, text([(&by_user, "user"), (&none, "")]));
                prop_assert_eq!(done.merged, vec!["file".to_owned()]);
            }
            false => {
                prop_assert!(!is_apart);
                prop_assert_eq!(became, present);
            }
        }
    }
}
