//! Applies the changes between two states of a workspace to a third: file by file, and line by line where both sides
//! changed. Decides everything before it changes anything.
//!
//! ```text
//!             base      ──what changed──►  theirs            ours ──gets that too──►  target
//!   apply     worktree as it was made      worktree now      checkout now
//!   undo      after the run                before the run    workspace now
//!   redo      after the undo               before the undo   workspace now
//! ```

mod conflict;
mod lines;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

pub use conflict::Conflict;
pub(crate) use conflict::{ConflictKind, Setting};
use lines::{LineMerge, Stores};

use crate::git::GitError;
use crate::history::{History, HistoryError};
use crate::snapshot::changes::{Change, compare};
use crate::snapshot::{Entry, EntryKind, Snapshot, Stamp};
use crate::tree_path::TreePath;

const EXECUTABLE: u32 = 0o111;

/// The planned state of a workspace.
#[derive(Debug)]
pub struct MergePlan {
    /// The workspace with all changes that do not conflict.
    pub target: Snapshot,
    /// Files that both sides changed, in different places.
    pub merged: Vec<TreePath>,
    /// Conflicts. In `target` these paths stay as they are now.
    pub conflicts: Vec<Conflict>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    #[error("`{}` cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub(crate) base: &'a Snapshot,
    pub(crate) theirs: &'a Snapshot,
    pub(crate) ours: &'a Snapshot,
}

/// Applies a worktree's changes, from `base` to `theirs`, to a checkout, `ours`.
pub fn merge(
    worktree: &History,
    checkout: &History,
    base: &Snapshot,
    theirs: &Snapshot,
    ours: &Snapshot,
) -> Result<MergePlan, MergeError> {
    let stores = Stores { own: checkout, other: Some(worktree) };
    plan(&stores, Setting::Checkouts, Sides { base, theirs, ours }, &[])
}

/// Like [`merge`], but within one workspace. `other` may have some of the contents. Paths in `left_alone` stay
/// undecided.
pub(crate) fn merge_within(
    history: &History,
    other: Option<&History>,
    setting: Setting,
    sides: Sides<'_>,
    left_alone: &[TreePath],
) -> Result<MergePlan, MergeError> {
    plan(&Stores { own: history, other }, setting, sides, left_alone)
}

fn plan(
    stores: &Stores<'_>,
    setting: Setting,
    sides: Sides<'_>,
    left_alone: &[TreePath],
) -> Result<MergePlan, MergeError> {
    let mut work = Work {
        setting,
        sides,
        target: sides.ours.entries.clone(),
        decided: Vec::new(),
        lines: Vec::new(),
        merged: Vec::new(),
        conflicts: Vec::new(),
    };
    let mut changes = compare(sides.base, sides.theirs);
    changes.retain(|change| !is_in(left_alone, change.path));
    // Removed directories come last, innermost first, because some of the user's files may stay in them.
    for change in changes.iter().filter(|change| !removes_directory(change)) {
        work.decide(change);
    }
    work.merge_lines(stores)?;
    for change in changes.iter().rev().filter(|change| removes_directory(change)) {
        work.remove_directory(change.path);
    }
    work.take_back_nonsense();
    let Work { target, mut merged, mut conflicts, .. } = work;
    conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    conflicts.dedup();
    merged.retain(|path| !conflicts.iter().any(|conflict| conflict.path == *path));
    merged.sort();
    let target = Snapshot { commit: None, entries: target, ..sides.ours.clone() };
    Ok(MergePlan { target, merged, conflicts })
}

struct Work<'a> {
    setting: Setting,
    sides: Sides<'a>,
    target: BTreeMap<TreePath, Entry>,
    /// Paths that a decision put into `target`.
    decided: Vec<TreePath>,
    lines: Vec<LineMerge>,
    merged: Vec<TreePath>,
    conflicts: Vec<Conflict>,
}

impl Work<'_> {
    fn conflict(&mut self, path: &TreePath, kind: ConflictKind) {
        let why = kind.why(self.setting);
        self.conflicts.push(Conflict { path: path.clone(), why });
    }

    fn decide(&mut self, change: &Change<'_>) {
        let path = change.path;
        let ours = self.sides.ours.entries.get(path);
        let is_same = |one, other| self.setting.is_same(one, other);
        if is_same(ours, change.to) {
            return;
        }
        if change.to.is_none() && is_in(&self.sides.theirs.left_out, path) {
            // The other side could not read this path, so it may have existed. It stays.
            return;
        }
        if ours.is_none() && is_in(&self.sides.ours.left_out, path) {
            self.conflict(path, ConflictKind::Unreadable);
            return;
        }
        let is_as_it_was = is_same(ours, change.from) || self.was_not_touched_since(change, ours);
        match (change.from, ours, change.to) {
            (_, _, None) if is_as_it_was => {
                self.target.remove(path);
            }
            (_, _, Some(to)) if is_as_it_was => self.take(path, to, ours),
            (Some(_), None, Some(to)) if self.setting == Setting::Finishing => {
                self.take(path, to, ours);
            }
            (_, _, None) => self.conflict(path, ConflictKind::ToBeRemoved),
            (Some(_), None, Some(_)) => self.conflict(path, ConflictKind::Removed),
            (None, Some(ours), Some(to)) if ours.is_directory() && to.is_directory() => {}
            (None, Some(_), Some(_)) if is_in(&self.sides.base.left_out, path) => {
                self.conflict(path, ConflictKind::Unknown);
            }
            (None, _, Some(_)) => self.conflict(path, ConflictKind::Made),
            (Some(from), Some(ours), Some(to)) => self.combine(path, from, ours, to),
        }
    }

    /// Returns true if the file is older than the base. The base could not read it, but the kernel's time shows that
    /// nothing has changed it since.
    fn was_not_touched_since(&self, change: &Change<'_>, ours: Option<&Entry>) -> bool {
        let base = self.sides.base;
        change.from.is_none()
            && is_in(&base.left_out, change.path)
            && ours.is_some_and(|ours| ours.stamp.changed_ns < base.began_ns)
    }

    /// Merges content and mode separately: each side may have changed one of them.
    fn combine(&mut self, path: &TreePath, from: &Entry, ours: &Entry, to: &Entry) {
        let mode = self.setting.merged_mode(from, ours, to);
        let kind = match (&from.kind, &ours.kind, &to.kind) {
            (
                EntryKind::File { id: base, .. },
                kind @ EntryKind::File { id: mine, .. },
                to_kind,
            ) => {
                let EntryKind::File { id: theirs, .. } = to_kind else {
                    return self.conflict(path, ConflictKind::Changed);
                };
                match mode {
                    _ if base == theirs || mine == theirs => kind,
                    _ if base == mine => to_kind,
                    Some(mode) => {
                        let ids = [mine, base, theirs].map(Clone::clone);
                        self.lines.push(LineMerge { path: path.clone(), ids, mode });
                        return;
                    }
                    None => kind,
                }
            }
            (from, ours, to) if from == ours && ours == to => ours,
            _ => return self.conflict(path, ConflictKind::Changed),
        };
        match mode {
            Some(mode) => self.bring_together(path.clone(), kind.clone(), mode),
            None => self.conflict(path, ConflictKind::Mode),
        }
    }

    fn bring_together(&mut self, path: TreePath, kind: EntryKind, mode: u32) {
        let entry = Entry { kind, mode, stamp: Stamp::default() };
        if self.sides.ours.entries.get(&path).is_some_and(|ours| ours.is_same_as(&entry)) {
            return;
        }
        self.target.insert(path.clone(), entry);
        self.decided.push(path.clone());
        self.merged.push(path);
    }

    fn merge_lines(&mut self, stores: &Stores<'_>) -> Result<(), MergeError> {
        let lines = std::mem::take(&mut self.lines);
        let results = stores.merge_all(&lines)?;
        for (LineMerge { path, mode, .. }, result) in lines.into_iter().zip(results) {
            match result {
                Some((id, size)) => self.bring_together(path, EntryKind::File { size, id }, mode),
                None => self.conflict(&path, ConflictKind::SameLines),
            }
        }
        Ok(())
    }

    /// Takes the other side's entry, and the directories that contain it.
    fn take(&mut self, path: &TreePath, to: &Entry, ours: Option<&Entry>) {
        let mode = self.setting.taken_mode(ours, to);
        self.target.insert(path.clone(), Entry { mode, ..to.clone() });
        self.decided.push(path.clone());
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|directory| !directory.as_bytes().is_empty()) {
            if !self.target.contains_key(&directory)
                && let Some(entry) = self.sides.theirs.entries.get(&directory)
            {
                self.target.insert(directory.clone(), entry.clone());
                self.decided.push(directory.clone());
            }
            parent = directory.parent();
        }
    }

    fn remove_directory(&mut self, path: &TreePath) {
        match self.target.get(path) {
            Some(entry) if !entry.is_directory() => self.conflict(path, ConflictKind::ToBeRemoved),
            Some(_)
                if !has_children(&self.target, path)
                    && !is_in(&self.sides.theirs.left_out, path) =>
            {
                self.target.remove(path);
            }
            _ => {}
        }
    }

    /// A file cannot contain other files. If decisions contradict each other or the current state, the path stays
    /// unchanged.
    fn take_back_nonsense(&mut self) {
        let decided = std::mem::take(&mut self.decided);
        let is_file = |target: &BTreeMap<TreePath, Entry>, path: &TreePath| {
            target.get(path).is_some_and(|entry| !entry.is_directory())
        };
        for path in &decided {
            if is_file(&self.target, path) && holds_what_was_there(self, path) {
                self.leave(path, ConflictKind::HoldsMore);
            }
        }
        for path in &decided {
            let mut parent = path.parent();
            while let Some(directory) = parent {
                if is_file(&self.target, &directory) {
                    self.leave(path, ConflictKind::InFile);
                    break;
                }
                parent = directory.parent();
            }
        }
    }

    fn leave(&mut self, path: &TreePath, kind: ConflictKind) {
        match self.sides.ours.entries.get(path) {
            Some(ours) => self.target.insert(path.clone(), ours.clone()),
            None => self.target.remove(path),
        };
        self.conflict(path, kind);
    }
}

/// Returns true if a directory that should become a file contains something that would stay.
fn holds_what_was_there(work: &Work<'_>, directory: &TreePath) -> bool {
    let is_here = |path: &TreePath| path.is_within(directory);
    let within = work.target.range(directory.join(b"")..).take_while(|(path, _)| is_here(path));
    within.filter(|(path, _)| *path != directory).any(|(path, entry)| {
        work.sides.ours.entries.get(path).is_some_and(|ours| ours.is_same_as(entry))
    })
}

fn removes_directory(change: &Change<'_>) -> bool {
    change.to.is_none() && change.from.is_some_and(Entry::is_directory)
}

fn is_in(places: &[TreePath], path: &TreePath) -> bool {
    places.iter().any(|place| path.is_within(place))
}

fn has_children(entries: &BTreeMap<TreePath, Entry>, directory: &TreePath) -> bool {
    let next = entries.range(directory.join(b"")..).next();
    next.is_some_and(|(path, _)| path.is_within(directory) && path != directory)
}

fn is_same_kind(one: &EntryKind, other: &EntryKind) -> bool {
    match (one, other) {
        (EntryKind::File { id: one, .. }, EntryKind::File { id: other, .. }) => one == other,
        (one, other) => one == other,
    }
}

impl Setting {
    fn is_same(self, one: Option<&Entry>, other: Option<&Entry>) -> bool {
        match (one, other, self) {
            (None, None, _) => true,
            (Some(one), Some(other), Self::Checkouts) => {
                let is_file = matches!(one.kind, EntryKind::File { .. });
                is_same_kind(&one.kind, &other.kind)
                    && (!is_file || (one.mode & 0o100) == (other.mode & 0o100))
            }
            (Some(one), Some(other), _) => one.is_same_as(other),
            _ => false,
        }
    }

    /// Returns the mode for an entry from the other side.
    fn taken_mode(self, ours: Option<&Entry>, to: &Entry) -> u32 {
        match ours {
            Some(ours) if self == Self::Checkouts && ours.is_directory() == to.is_directory() => {
                with_bits_of(ours.mode, to.mode)
            }
            _ => to.mode,
        }
    }

    /// Returns `None` if both sides changed the mode in different ways.
    fn merged_mode(self, from: &Entry, ours: &Entry, to: &Entry) -> Option<u32> {
        if self == Self::Checkouts {
            let is_turned = (from.mode ^ to.mode) & EXECUTABLE != 0;
            return Some(if is_turned { with_bits_of(ours.mode, to.mode) } else { ours.mode });
        }
        match (from.mode, ours.mode, to.mode) {
            (from, ours, to) if from == to || ours == to => Some(ours),
            (from, ours, to) if from == ours => Some(to),
            _ => None,
        }
    }
}

fn with_bits_of(mode: u32, other: u32) -> u32 {
    // If anyone may execute the file, everyone who may read it may execute it.
    let wanted = if other & EXECUTABLE == 0 { 0 } else { (mode & 0o444) >> 2 };
    mode & !EXECUTABLE | wanted
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
