//! Finds and removes the irregular files in a git directory: links, special files, and files with a hard link outside.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use run_protocol::BytesPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::finding::RepositoryError;
use super::soundness::{Closed, OpenedUp, Visit, walk};
use crate::file_tree::{FileTree, OpenDirectory};
use crate::tree_path::TreePath;

/// The directories where clones share files by hard links. Git never writes those files in place.
const SHARED: [&[u8]; 3] = [b"objects", b"lfs", b"annex"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Irregular {
    /// The path below the git directory.
    pub(crate) path: TreePath,
    pub(crate) kind: IrregularKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<BytesPath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IrregularKind {
    Link,
    /// A FIFO, a socket or a device.
    Special,
    /// A file that has another name outside the git directory.
    HardLink {
        inode: u64,
    },
}

/// The result of a search through a git directory.
#[derive(Debug, Default)]
pub(crate) struct LookedThrough {
    /// All irregular files, each with the time of its last change.
    pub(crate) found: Vec<(Irregular, i64)>,
    /// Unreadable directories that the search made readable.
    pub(crate) opened: Vec<TreePath>,
    /// Why the search is incomplete.
    pub(crate) problem: Option<RepositoryError>,
}

/// Returns all irregular files in a git directory. Fails if it cannot read a directory.
pub(crate) fn irregular_in(
    git_dir: &Path,
    until: Instant,
) -> Result<Vec<(Irregular, i64)>, RepositoryError> {
    let mut found = Vec::new();
    collect(git_dir, until, Closed::Refuse, &mut found).map(|()| found)
}

/// Returns all irregular files in a git directory. Makes unreadable directories readable.
pub(crate) fn irregular_opened_up(git_dir: &Path, until: Instant) -> LookedThrough {
    let (mut found, mut opened) = (Vec::new(), OpenedUp::default());
    let outcome = collect(git_dir, until, Closed::OpenUp(&mut opened), &mut found);
    LookedThrough { found, opened: opened.directories, problem: outcome.err().or(opened.problem) }
}

fn collect(
    git_dir: &Path,
    until: Instant,
    closed: Closed<'_>,
    found: &mut Vec<(Irregular, i64)>,
) -> Result<(), RepositoryError> {
    // Files with several names, by inode: the number of names, and the names in this directory.
    let mut linked: BTreeMap<u64, (u64, Vec<(TreePath, i64)>)> = BTreeMap::new();
    let outcome = walk(git_dir, until, closed, &mut |directory, path, file_type| {
        let is_shared = path.names().next().is_some_and(|first| SHARED.contains(&first));
        if file_type == FileType::Directory || (file_type == FileType::RegularFile && is_shared) {
            return Visit::GoOn;
        }
        let Ok(seen) = directory.look(path.name()) else { return Visit::GoOn };
        let changed_ns = seen.stamp.changed_ns;
        let (kind, target) = match file_type {
            FileType::RegularFile if seen.links > 1 => {
                let entry = linked.entry(seen.stamp.inode).or_insert((seen.links, Vec::new()));
                entry.1.push((path.clone(), changed_ns));
                return Visit::GoOn;
            }
            FileType::RegularFile => return Visit::GoOn,
            FileType::Symlink => {
                let target = directory.read_link(path.name()).ok();
                (IrregularKind::Link, target.map(|target| BytesPath::from(target.as_path())))
            }
            _ => (IrregularKind::Special, None),
        };
        found.push((Irregular { path: path.clone(), kind, target }, changed_ns));
        Visit::GoOn
    });
    // If the walk ended early, a name inside the git directory may count as outside. Then the file is copied
    // needlessly, which does no harm.
    for (inode, (n_names, here)) in linked {
        if (here.len() as u64) < n_names {
            let kind = IrregularKind::HardLink { inode };
            let of = |(path, changed_ns)| (Irregular { path, kind, target: None }, changed_ns);
            found.extend(here.into_iter().map(of));
        }
    }
    outcome
}

/// Removes an irregular file. If the file has another name outside the git directory, replaces it with a copy.
pub(crate) fn remove(git_dir: &Path, irregular: &Irregular) -> io::Result<()> {
    let tree = FileTree::open(git_dir)?;
    let (parent, name) = (irregular.path.parent().unwrap_or_default(), irregular.path.name());
    let directory = tree.directory(&parent)?;
    if let IrregularKind::HardLink { .. } = irregular.kind {
        return separate(&directory, name);
    }
    Ok(rustix::fs::unlinkat(directory.fd(), name, AtFlags::empty())?)
}

fn separate(directory: &OpenDirectory, name: &[u8]) -> io::Result<()> {
    let mode = Mode::from_raw_mode(directory.look(name)?.mode);
    let mut from = directory.open_file(name)?;
    let own = [name, b".caretaker"].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut to =
        rustix::fs::openat(directory.fd(), own.as_slice(), flags, mode).map(std::fs::File::from)?;
    let copied = io::copy(&mut from, &mut to).and_then(|_| {
        Ok(rustix::fs::renameat(directory.fd(), own.as_slice(), directory.fd(), name)?)
    });
    if copied.is_err() {
        rustix::fs::unlinkat(directory.fd(), own.as_slice(), AtFlags::empty()).ok();
    }
    copied
}
