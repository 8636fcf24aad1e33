//! Reverts the changes of one run to its workspace, and nothing else. Plans every path before it changes anything. It
//! reverts the difference between two snapshots, so that later work stays.

mod repositories;

use std::borrow::Cow;
use std::collections::BTreeSet;

use run_protocol::RunId;

use crate::audit::repositories_made;
use crate::history::{History, Operation, OperationKind};
use crate::merge::{MergeError, MergePlan, Setting, Sides, merge_within};
use crate::snapshot::changes::compare;
use crate::snapshot::{Entry, Snapshot};
use crate::tree_path::TreePath;
use crate::walk::coverage::is_git;

/// The prefix of a restore's unfinished files.
pub(crate) const UNFINISHED: &str = ".caretaker-restoring-";

#[derive(Debug)]
pub struct Undo<'a> {
    /// The state that the run's changes led to: the end of the run, or the checkpoint of an earlier undo.
    pub base: &'a Snapshot,
    /// The state to return to: before the run, or a checkpoint.
    pub goal: &'a Snapshot,
    /// The end of the run, if it was saved.
    pub end: Option<&'a Snapshot>,
    /// The states before and after each redo of this run. A repository that a redo restored counts as the run left it,
    /// although its files are new.
    pub redone: &'a [(Snapshot, Snapshot)],
}

impl Undo<'_> {
    /// Returns the repositories that the run made, each as its `.git` path. The undo removes those that have not
    /// changed since the run. A later repository belongs to the user.
    pub fn repositories(&self) -> Vec<TreePath> {
        self.end.map(|end| repositories_made(self.goal, end)).unwrap_or_default()
    }

    /// `present` is the current workspace, covered by the goal's rules, with these repositories.
    pub fn plan(&self, history: &History, present: &Snapshot) -> Result<MergePlan, MergeError> {
        // There may be many entries, and usually no repository.
        let mut base = Cow::Borrowed(self.base);
        let mut changed = Vec::new();
        let ended_ns = self.end.map_or(i64::MIN, |end| end.began_ns);
        for repository in self.repositories() {
            let is_as_brought = |(replaced, restored): &(Snapshot, Snapshot)| {
                repositories::is_absent(replaced, &repository)
                    && repositories::is_same(restored, present, &repository)
            };
            if repositories::is_older_than(present, &repository, ended_ns)
                || self.redone.iter().any(is_as_brought)
            {
                repositories::take_over(base.to_mut(), present, &repository);
            } else {
                changed.push(repository);
            }
        }
        let sides = Sides { base: &base, theirs: self.goal, ours: present };
        let setting = Setting::Since("the run");
        let mut plan = merge_within(history, None, setting, sides, &changed)?;
        plan.conflicts.extend(repositories::conflicts(&changed, setting));
        plan.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(with_rules_of(plan, self.goal))
    }
}

/// Reverts an earlier undo or apply.
#[derive(Debug)]
pub struct Reversal<'a> {
    /// The state before it.
    pub replaced: &'a Snapshot,
    /// The state after it.
    pub restored: &'a Snapshot,
    /// The operation in words: "the undo".
    pub since: &'static str,
}

impl Reversal<'_> {
    /// Returns a snapshot that covers everything in either state.
    pub fn cover(&self) -> Snapshot {
        cover(self.restored, self.replaced)
    }

    pub fn repositories(&self) -> Vec<TreePath> {
        repositories_in([self.restored, self.replaced])
    }

    /// `other` is the history that has the remaining contents, if some came from another workspace.
    pub fn plan(
        &self,
        history: &History,
        other: Option<&History>,
        present: &Snapshot,
    ) -> Result<MergePlan, MergeError> {
        let setting = Setting::Since(self.since);
        let way = Way { from: self.restored, to: self.replaced, present };
        let plan = reach(history, other, way, setting)?;
        Ok(with_rules_of(plan, self.restored))
    }
}

/// A restore that was under way when its process died.
#[derive(Debug)]
pub struct Unfinished<'a> {
    pub replaced: &'a Snapshot,
    pub restored: &'a Snapshot,
}

impl Unfinished<'_> {
    pub fn cover(&self) -> Snapshot {
        cover(self.restored, self.replaced)
    }

    pub fn repositories(&self) -> Vec<TreePath> {
        repositories_in([self.restored, self.replaced])
    }

    pub fn plan(&self, history: &History, present: &Snapshot) -> Result<MergePlan, MergeError> {
        let (from, to) = (self.replaced, self.restored);
        let mut plan = reach(history, None, Way { from, to, present }, Setting::Finishing)?;
        let is_unfinished = |path: &TreePath| path.name().starts_with(UNFINISHED.as_bytes());
        let is_new = |path: &TreePath| !from.entries.contains_key(path);
        plan.target.entries.retain(|path, _| !(is_unfinished(path) && is_new(path)));
        Ok(with_rules_of(plan, to))
    }
}

struct Way<'a> {
    from: &'a Snapshot,
    to: &'a Snapshot,
    present: &'a Snapshot,
}

/// Applies the changes from one state to another to the current workspace. A repository changes as a whole or not at
/// all.
fn reach(
    history: &History,
    other: Option<&History>,
    Way { from, to, present }: Way<'_>,
    setting: Setting,
) -> Result<MergePlan, MergeError> {
    let mut base = Cow::Borrowed(from);
    let (mut left_alone, mut changed) = (Vec::new(), Vec::new());
    for repository in repositories_in([from, to]) {
        if repositories::is_same(from, to, &repository)
            || repositories::is_same(present, to, &repository)
        {
            left_alone.push(repository);
        } else if repositories::is_same(from, present, &repository) || setting == Setting::Finishing
        {
            repositories::take_over(base.to_mut(), present, &repository);
        } else {
            left_alone.push(repository.clone());
            changed.push(repository);
        }
    }
    let sides = Sides { base: &base, theirs: to, ours: present };
    let mut plan = merge_within(history, other, setting, sides, &left_alone)?;
    plan.conflicts.extend(repositories::conflicts(&changed, setting));
    plan.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(plan)
}

fn with_rules_of(mut plan: MergePlan, snapshot: &Snapshot) -> MergePlan {
    plan.target.rules.clone_from(&snapshot.rules);
    plan.target.rules_above.clone_from(&snapshot.rules_above);
    plan
}

fn cover(one: &Snapshot, other: &Snapshot) -> Snapshot {
    let mut cover = one.clone();
    for (path, entry) in &other.entries {
        cover.entries.entry(path.clone()).or_insert_with(|| entry.clone());
    }
    cover
}

/// Returns the repositories whose contents the snapshots have, each as its `.git` path.
fn repositories_in(snapshots: [&Snapshot; 2]) -> Vec<TreePath> {
    let is_root = |path: &&TreePath| {
        is_git(path.name()) && !path.parent().is_some_and(|parent| parent.names().any(is_git))
    };
    let all = snapshots.into_iter().flat_map(|snapshot| snapshot.entries.keys());
    let found: BTreeSet<&TreePath> = all.filter(is_root).collect();
    found.into_iter().cloned().collect()
}

/// Returns the undo that is in effect after all undos and redos, or `None` if the run's changes are in effect.
pub fn standing(operations: &[Operation], run: RunId) -> Option<&Operation> {
    let (mut now, mut other) = (None, None);
    for operation in operations.iter().filter(|operation| operation.run == run) {
        match operation.kind {
            OperationKind::Undo => other = now.replace(operation),
            OperationKind::Redo => std::mem::swap(&mut now, &mut other),
            OperationKind::Apply | OperationKind::Revert => {}
        }
    }
    now
}

/// Returns the part of a run's changes that is left after an undo to `goal`: the goal, and every path that the undo did
/// not touch.
pub fn base_after_undo(
    end: &Snapshot,
    goal: &Snapshot,
    replaced: &Snapshot,
    restored: &Snapshot,
) -> Snapshot {
    let mut base = goal.clone();
    for change in compare(end, goal) {
        let [was, became] = [replaced, restored].map(|snapshot| snapshot.entries.get(change.path));
        let is_same = |one: Option<&Entry>, other: Option<&Entry>| match (one, other) {
            (Some(one), Some(other)) => one.is_same_as(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let was_as_wanted = became.is_some() && is_same(became, change.to);
        if !is_same(was, became) || was_as_wanted {
            continue;
        }
        match change.from {
            Some(from) => base.entries.insert(change.path.clone(), from.clone()),
            None => base.entries.remove(change.path),
        };
    }
    base
}

#[cfg(test)]
#[path = "undo_tests.rs"]
mod tests;
