//! If a run made a repository, an undo removes all of it or none of it.

use crate::merge::{Conflict, ConflictKind, Setting};
use crate::snapshot::{Entry, Snapshot};
use crate::tree_path::TreePath;

/// Everything in a `.git`, and the `.git` itself.
fn entries<'a>(
    snapshot: &'a Snapshot,
    repository: &'a TreePath,
) -> impl Iterator<Item = (&'a TreePath, &'a Entry)> {
    let own = snapshot.entries.get_key_value(repository);
    let within = snapshot.entries.range(repository.join(b"")..);
    own.into_iter().chain(within.take_while(|(path, _)| path.is_within(repository)))
}

/// Returns the entries that show a real change. Git rewrites its index and directory times even for a read such as `git
/// status`.
fn telling<'a>(
    snapshot: &'a Snapshot,
    repository: &'a TreePath,
) -> impl Iterator<Item = (&'a TreePath, &'a Entry)> {
    entries(snapshot, repository)
        .filter(|(path, entry)| !entry.is_directory() && path.name() != b"index")
}

pub(super) fn is_absent(snapshot: &Snapshot, repository: &TreePath) -> bool {
    entries(snapshot, repository).next().is_none()
}

/// Returns true if both snapshots have the same repository, or neither has one.
pub(super) fn is_same(one: &Snapshot, other: &Snapshot, repository: &TreePath) -> bool {
    is_absent(one, repository) == is_absent(other, repository)
        && telling(one, repository)
            .map(|(path, _)| path)
            .eq(telling(other, repository).map(|(path, _)| path))
        && telling(one, repository)
            .zip(telling(other, repository))
            .all(|((_, one), (_, other))| one.is_same_as(other))
}

/// Returns true if nothing in the repository has changed since that time. Only the kernel sets these times.
pub(super) fn is_older_than(snapshot: &Snapshot, repository: &TreePath, time_ns: i64) -> bool {
    telling(snapshot, repository).all(|(_, entry)| entry.stamp.changed_ns <= time_ns)
}

/// Copies the repository from `present` into `base`.
pub(super) fn take_over(base: &mut Snapshot, present: &Snapshot, repository: &TreePath) {
    base.entries.retain(|path, _| !path.is_within(repository));
    let entries = entries(present, repository);
    base.entries.extend(entries.map(|(path, entry)| (path.clone(), entry.clone())));
}

pub(super) fn conflicts(changed: &[TreePath], setting: Setting) -> Vec<Conflict> {
    let why = || ConflictKind::Repository.why(setting);
    changed.iter().map(|path| Conflict { path: path.clone(), why: why() }).collect()
}
