//! Takes back what one run did to its workspace, and nothing else: decides before anything is touched what becomes of
//! each path. What is taken back is the difference of two snapshots, so that what came later stays.

mod repositories;

use std::borrow::Cow;
use std::collections::BTreeSet;

use run_protocol::RunId;

use crate::audit::repositories_made;
use crate::changes::compare;
use crate::coverage::is_git;
use crate::history::{History, Operation, OperationKind};
use crate::merge::{MergeError, MergePlan, Setting, Sides, merge_within};
use crate::snapshot::{Entry, Snapshot};
use crate::tree_path::TreePath;

/// What unfinished files of a restore are called.
pub(crate) const UNFINISHED: &str = ".caretaker-restoring-";

/// An undo of a run.
#[derive(Debug)]
pub struct Undo<'a> {
    /// What the run's changes led to: the end of the run, or the checkpoint that an earlier undo went back to.
    pub base: &'a Snapshot,
    /// Before the run, or the checkpoint to go back to.
    pub goal: &'a Snapshot,
    /// The end of the run, where it was saved.
    pub end: Option<&'a Snapshot>,
    /// What redos of this run replaced, and what they made of it: a repository that one of them brought back is as the
    /// run left it, although its files are new.
    pub redone: &'a [(Snapshot, Snapshot)],
}

impl Undo<'_> {
    /// Repositories that go if they are as the run left them, each by its `.git`. One that came later is the user's.
    pub fn repositories(&self) -> Vec<TreePath> {
        self.end.map(|end| repositories_made(self.goal, end)).unwrap_or_default()
    }

    /// `present` is the workspace by the rules of the goal, with the repositories.
    pub fn plan(&self, history: &History, present: &Snapshot) -> Result<MergePlan, MergeError> {
        // There may be many entries, and mostly no repository.
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

/// What was done to a workspace, taken back.
#[derive(Debug)]
pub struct Reversal<'a> {
    /// What it was before.
    pub replaced: &'a Snapshot,
    /// What it became.
    pub restored: &'a Snapshot,
    /// Who did it: "the undo".
    pub since: &'static str,
}

impl Reversal<'_> {
    /// Whatever one of both states holds, by the rules that held for them.
    pub fn cover(&self) -> Snapshot {
        cover(self.restored, self.replaced)
    }

    pub fn repositories(&self) -> Vec<TreePath> {
        repositories_in([self.restored, self.replaced])
    }

    /// `other` keeps some of the contents, where they came from another workspace.
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

/// Something that was being done to a workspace when the process died.
#[derive(Debug)]
pub struct Unfinished<'a> {
    pub replaced: &'a Snapshot,
    pub restored: &'a Snapshot,
}

impl Unfinished<'_> {
    /// See [`Reversal::cover`].
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

/// Brings what leads from one state to the other into the present. A repository is one thing: all of it or nothing.
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

/// Repositories whose contents are kept, each by its `.git`.
fn repositories_in(snapshots: [&Snapshot; 2]) -> Vec<TreePath> {
    let is_root = |path: &&TreePath| {
        is_git(path.name()) && !path.parent().is_some_and(|parent| parent.names().any(is_git))
    };
    let all = snapshots.into_iter().flat_map(|snapshot| snapshot.entries.keys());
    let found: BTreeSet<&TreePath> = all.filter(is_root).collect();
    found.into_iter().cloned().collect()
}

/// The undo of a run whose result stands, after all that was undone and redone; `None` where the run stands as it ended.
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

/// What is left of a run's changes after an undo went back to `goal`: that, but for what the undo left alone.
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
mod tests;
