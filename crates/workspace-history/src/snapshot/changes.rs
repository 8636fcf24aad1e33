//! The differences between two snapshots.

use run_protocol::{BytesPath, ChangeCounts};
use serde::Serialize;

use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::tree_path::TreePath;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Removed,
    /// The content differs.
    Changed,
    /// Only the mode differs.
    Mode,
    /// The type differs, such as a link in place of a file.
    Kind,
}

/// A path that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    pub path: &'a TreePath,
    pub kind: ChangeKind,
    pub from: Option<&'a Entry>,
    pub to: Option<&'a Entry>,
}

impl Change<'_> {
    pub fn is_of_directory(&self) -> bool {
        let is_directory = |entry: Option<&Entry>| entry.is_none_or(Entry::is_directory);
        is_directory(self.from) && is_directory(self.to)
    }

    pub fn bytes_path(&self) -> BytesPath {
        BytesPath::from(self.path.as_path())
    }
}

/// Counts the changes of each kind, without directories.
pub fn count(changes: &[Change<'_>]) -> ChangeCounts {
    let mut counted = ChangeCounts::default();
    for change in changes.iter().filter(|change| !change.is_of_directory()) {
        match change.kind {
            ChangeKind::Added => counted.added += 1,
            ChangeKind::Removed => counted.removed += 1,
            ChangeKind::Changed | ChangeKind::Mode | ChangeKind::Kind => counted.changed += 1,
        }
    }
    counted
}

/// Returns the changes from one snapshot to the other, sorted by path.
pub fn compare<'a>(from: &'a Snapshot, to: &'a Snapshot) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    let (mut olds, mut news) = (from.entries.iter().peekable(), to.entries.iter().peekable());
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = if order.is_le() { olds.next() } else { None };
        let new = if order.is_ge() { news.next() } else { None };
        match (old, new) {
            (Some((path, from)), Some((_, to))) => {
                if let Some(kind) = kind_of(from, to) {
                    changes.push(Change { path, kind, from: Some(from), to: Some(to) });
                }
            }
            (Some((path, from)), None) => {
                let kind = ChangeKind::Removed;
                changes.push(Change { path, kind, from: Some(from), to: None });
            }
            (None, Some((path, to))) => {
                changes.push(Change { path, kind: ChangeKind::Added, from: None, to: Some(to) });
            }
            (None, None) => {}
        }
    }
}

fn kind_of(from: &Entry, to: &Entry) -> Option<ChangeKind> {
    if from.is_same_as(to) {
        return None;
    }
    Some(match (&from.kind, &to.kind) {
        (EntryKind::File { id: old, .. }, EntryKind::File { id: new, .. }) if old == new => {
            ChangeKind::Mode
        }
        (EntryKind::File { .. }, EntryKind::File { .. })
        | (EntryKind::Symlink { .. }, EntryKind::Symlink { .. }) => ChangeKind::Changed,
        (old, new) if old == new => ChangeKind::Mode,
        _ => ChangeKind::Kind,
    })
}
