//! A repository that came with a run is one thing: it goes as a whole, or stays as a whole.

use crate::merge::{Conflict, ConflictKind, Setting};
use crate::snapshot::{Entry, Snapshot};
use crate::tree_path::TreePath;

/// Everything in a `.git`, with the `.git` itself.
fn entries<'a>(
    snapshot: &'a Snapshot,
    repository: &'a TreePath,
) -> impl Iterator<Item = (&'a TreePath, &'a Entry)> {
    let own = snapshot.entries.get_key_value(repository);
    let within = snapshot.entries.range(repository.join(b"")..);
    own.into_iter().chain(within.take_while(|(path, _)| path.is_within(repository)))
}

/// Without what git changes when the user only looks: it writes its index anew, and directories get other times.
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

/// Whether both hold the same repository, or none.
pub(super) fn is_same(one: &Snapshot, other: &Snapshot, repository: &TreePath) -> bool {
    is_absent(one, repository) == is_absent(other, repository)
        && telling(one, repository)
            .map(|(path, _)| path)
            .eq(telling(other, repository).map(|(path, _)| path))
        && telling(one, repository)
            .zip(telling(other, repository))
            .all(|((_, one), (_, other))| one.is_same_as(other))
}

/// Whether nothing in it changed since then, by times that only the kernel sets.
pub(super) fn is_older_than(snapshot: &Snapshot, repository: &TreePath, time_ns: i64) -> bool {
    telling(snapshot, repository).all(|(_, entry)| entry.stamp.changed_ns <= time_ns)
}

/// Makes the repository in `base` what it is in `present`.
pub(super) fn take_over(base: &mut Snapshot, present: &Snapshot, repository: &TreePath) {
    base.entries.retain(|path, _| !path.is_within(repository));
    let entries = entries(present, repository);
    base.entries.extend(entries.map(|(path, entry)| (path.clone(), entry.clone())));
}

pub(super) fn conflicts(changed: &[TreePath], setting: Setting) -> Vec<Conflict> {
    let why = || ConflictKind::Repository.why(setting);
    changed.iter().map(|path| Conflict { path: path.clone(), why: why() }).collect()
}
