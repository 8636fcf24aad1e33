//! Restores a workspace to a snapshot, and touches nothing else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_tree::{FileTree, OpenDirectory};
use crate::git::contents::ContentReader;
use crate::history::{History, HistoryError};
use crate::snapshot::changes::{Change, compare};
use crate::snapshot::{Entry, EntryKind, Snapshot};
use crate::tree_path::TreePath;
use crate::undo::UNFINISHED;

/// More workers would only wait for the disk and for each other.
const MOST_WORKERS: usize = 4;
/// For fewer files, another worker is not worth its git process.
const SMALLEST_SHARE: usize = 256;

/// The result of a restore.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Directories that stay because they contain files that are not covered.
    pub left: Vec<TreePath>,
    /// Paths that could not be restored, and why.
    pub failed: Vec<(TreePath, String)>,
}

impl Restored {
    /// Returns true if no change was made.
    pub fn has_changed_nothing(&self, planned: &[Change<'_>]) -> bool {
        let stayed = |path: &TreePath| {
            self.left.contains(path) || self.failed.iter().any(|(failed, _)| failed == path)
        };
        planned.iter().all(|change| stayed(change.path))
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("`{}` cannot be entered", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// Returns the changes that a restore would make. A path that the target left out because it was unreadable may have
/// existed: it belongs to the user and stays.
pub fn changes_to<'a>(present: &'a Snapshot, target: &'a Snapshot) -> Vec<Change<'a>> {
    let mut changes = compare(present, target);
    let is_unknown = |path: &TreePath| target.left_out.iter().any(|out| path.is_within(out));
    changes.retain(|change| change.to.is_some() || !is_unknown(change.path));
    changes
}

/// Brings a workspace from `present` to its target. `present` must be fresh, and no other process may work in the
/// workspace.
pub fn restore(
    history: &History,
    present: &Snapshot,
    target: &Snapshot,
) -> Result<Restored, RestoreError> {
    restore_from(history, &|| history.contents(), present, target)
}

/// Like [`restore`], but with some contents from another workspace's history.
pub fn restore_with(
    history: &History,
    other: &History,
    present: &Snapshot,
    target: &Snapshot,
) -> Result<Restored, RestoreError> {
    restore_from(history, &|| history.contents_and(other), present, target)
}

/// Starts a reader of contents.
type StartReader<'a> = &'a (dyn Fn() -> Result<ContentReader, HistoryError> + Sync);

fn restore_from(
    history: &History,
    start_reader: StartReader<'_>,
    present: &Snapshot,
    target: &Snapshot,
) -> Result<Restored, RestoreError> {
    let path = history.workspace().to_owned();
    let tree = FileTree::open(&path).map_err(|source| RestoreError::Workspace { path, source })?;
    let changes = changes_to(present, target);
    let is_directory = |change: &&Change<'_>| change.to.is_some_and(Entry::is_directory);
    let others: Vec<&Change<'_>> =
        changes.iter().filter(|change| change.to.is_some() && !is_directory(change)).collect();
    let shares = shares_of(&tree, start_reader, &others)?;

    let mut work = Work::new(&tree, 0);
    for change in changes.iter().rev() {
        work.remove(change);
    }
    for change in changes.iter().filter(is_directory) {
        work.make_directory(change.path);
    }
    work.outcome.failed.extend(make_side_by_side(shares));
    work.set_directory_modes(&target.entries);
    work.outcome.left.sort();
    work.outcome.failed.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(work.outcome)
}

/// The share of one worker.
struct Share<'a> {
    work: Work<'a>,
    contents: ContentReader,
    changes: &'a [&'a Change<'a>],
}

/// Starts all readers before anything changes.
fn shares_of<'a>(
    tree: &'a FileTree,
    start_reader: StartReader<'_>,
    changes: &'a [&'a Change<'a>],
) -> Result<Vec<Share<'a>>, HistoryError> {
    let n_processors = thread::available_parallelism().map_or(1, usize::from);
    let most = n_processors.clamp(1, MOST_WORKERS);
    let length = changes.len().div_ceil(most).max(SMALLEST_SHARE);
    let shares = changes.chunks(length).enumerate().map(|(number, changes)| {
        Ok(Share { work: Work::new(tree, number), contents: start_reader()?, changes })
    });
    shares.collect()
}

/// Creates everything except directories, which already exist, and returns the failures. Creating files takes the
/// kernel longest, so several threads do it at once.
fn make_side_by_side(shares: Vec<Share<'_>>) -> Vec<(TreePath, String)> {
    let n_helpers = shares.len().saturating_sub(1);
    let shares = Mutex::new(shares);
    let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let make_some = || -> Vec<(TreePath, String)> {
        std::iter::from_fn(next).flat_map(|share| share.make_all().failed).collect()
    };
    thread::scope(|scope| {
        // If no more threads can be started, this thread does the rest.
        let start = |_| thread::Builder::new().spawn_scoped(scope, make_some).ok();
        let helpers: Vec<_> = (0..n_helpers).map_while(start).collect();
        let mut failed = make_some();
        for helper in helpers {
            failed.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        failed
    })
}

impl Share<'_> {
    fn make_all(mut self) -> Restored {
        self.contents.ask_for(self.changes.iter().filter_map(|change| needed_content(change)));
        for change in self.changes {
            self.work.make(change, &mut self.contents);
        }
        self.work.outcome
    }
}

/// Returns the id of the content to write for a file.
fn needed_content<'a>(change: &Change<'a>) -> Option<&'a str> {
    let EntryKind::File { id, .. } = &change.to?.kind else { return None };
    let has_it = change
        .from
        .is_some_and(|from| matches!(&from.kind, EntryKind::File { id: old, .. } if old == id));
    (!has_it).then_some(id)
}

struct Work<'a> {
    tree: &'a FileTree,
    /// The most recent directory. The next path is usually in it too.
    at: Option<(TreePath, OpenDirectory)>,
    /// The name of a file while it is being written. Each worker has its own.
    unfinished: String,
    outcome: Restored,
}

impl<'a> Work<'a> {
    fn new(tree: &'a FileTree, worker: usize) -> Self {
        let unfinished = format!("{UNFINISHED}{}-{worker}", std::process::id());
        Self { tree, at: None, unfinished, outcome: Restored::default() }
    }

    fn failed(&mut self, path: &TreePath, error: impl std::fmt::Display) {
        self.outcome.failed.push((path.clone(), error.to_string()));
    }

    /// Opens the directory of a path, and makes it readable if necessary.
    fn parent_of(&mut self, path: &TreePath) -> io::Result<&OpenDirectory> {
        let parent = path.parent().unwrap_or_default();
        if self.at.as_ref().is_none_or(|(at, _)| *at != parent) {
            let directory = match self.tree.directory(&parent) {
                Err(Errno::ACCESS) => {
                    self.open_up(&parent)?;
                    self.tree.directory(&parent)?
                }
                opened => opened?,
            };
            self.at = Some((parent, directory));
        }
        self.at.as_ref().map(|(_, directory)| directory).ok_or_else(|| Errno::NOENT.into())
    }

    fn open_up(&self, path: &TreePath) -> io::Result<()> {
        let outer = path.parent().ok_or(Errno::ACCESS)?;
        let outer = self.tree.directory(&outer)?;
        let mode = outer.look(path.name())?.mode;
        outer.set_mode(path.name(), mode | 0o700)
    }

    /// Runs `act` in the directory of a path. Makes the directory writable if necessary; it gets its final mode at the
    /// end.
    fn within<T>(
        &mut self,
        path: &TreePath,
        act: impl Fn(&OpenDirectory) -> io::Result<T>,
    ) -> io::Result<T> {
        match act(self.parent_of(path)?) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let parent = path.parent().unwrap_or_default();
                self.open_up(&parent)?;
                self.at = None;
                act(self.parent_of(path)?)
            }
            done => done,
        }
    }

    /// Removes an entry that should not exist, or that should become something else.
    fn remove(&mut self, change: &Change<'_>) {
        let Some(from) = change.from else { return };
        let stays = change.to.is_some_and(|to| match (&from.kind, &to.kind) {
            // The new file is written next to the old one and then replaces it.
            (EntryKind::File { .. }, EntryKind::File { .. }) => true,
            (from, to) => from == to,
        });
        if stays {
            return;
        }
        let flags = if from.is_directory() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if from.is_directory() && self.at.as_ref().is_some_and(|(at, _)| at == change.path) {
            self.at = None;
        }
        let name = OsStr::from_bytes(change.path.name());
        let removed = self.within(change.path, |directory| {
            Ok(rustix::fs::unlinkat(directory.fd(), name, flags)?)
        });
        match removed {
            Ok(()) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => {}
                Some(Errno::NOTEMPTY | Errno::EXIST) if change.to.is_none() => {
                    self.outcome.left.push(change.path.clone());
                }
                _ => self.failed(change.path, format!("it cannot be removed: {error}")),
            },
        }
    }

    fn make(&mut self, change: &Change<'_>, contents: &mut ContentReader) {
        let Some(to) = change.to else { return };
        let made = match (&to.kind, needed_content(change)) {
            (EntryKind::File { .. }, Some(id)) => self.write_file(change.path, to, id, contents),
            (EntryKind::File { .. } | EntryKind::Fifo, None)
                if change.from.is_some_and(|from| !from.is_directory() && same_kind(from, to)) =>
            {
                self.within(change.path, |directory| {
                    directory.set_mode(change.path.name(), to.mode)
                })
            }
            // The directory already exists, because it contains other entries.
            (EntryKind::Directory, _) => Ok(()),
            (EntryKind::Symlink { target }, _) => {
                let name = OsStr::from_bytes(change.path.name());
                self.within(change.path, |directory| {
                    Ok(rustix::fs::symlinkat(target, directory.fd(), name)?)
                })
            }
            (EntryKind::Fifo, _) => self.make_fifo(change.path, to.mode),
            (EntryKind::Socket | EntryKind::Device, _) => {
                if change.from.is_some_and(|from| same_kind(from, to)) {
                    Ok(())
                } else {
                    Err(io::Error::other("cannot recreate a socket or a device"))
                }
            }
            (EntryKind::File { .. }, None) => Ok(()),
        };
        if let Err(error) = made {
            self.failed(change.path, error);
        }
    }

    fn write_file(
        &mut self,
        path: &TreePath,
        to: &Entry,
        id: &str,
        contents: &mut ContentReader,
    ) -> io::Result<()> {
        // Borrowed separately, because `self` changes below.
        let unfinished = self.unfinished.clone();
        let opened = self.within(path, |directory| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let open = || {
                rustix::fs::openat(directory.fd(), &*unfinished, flags, Mode::from_raw_mode(0o600))
            };
            match open() {
                // A process that died while writing left this file.
                Err(Errno::EXIST) => {
                    rustix::fs::unlinkat(directory.fd(), &*unfinished, AtFlags::empty())?;
                    Ok(open()?)
                }
                opened => Ok(opened?),
            }
        });
        let mut file = match opened {
            Ok(fd) => File::from(fd),
            Err(error) => {
                // Contents arrive in order, so this one must be read even if it cannot be written.
                contents.next(id, &mut io::sink())?;
                return Err(error);
            }
        };
        let name = OsStr::from_bytes(path.name());
        let written = contents
            .next(id, &mut file)
            .and_then(|()| Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(to.mode))?))
            .and_then(|()| {
                self.within(path, |directory| {
                    // Do not rename over the old file, because many file systems would then flush each file
                    // immediately. If the process dies in between, the snapshot still has the content, and the next
                    // attempt restores it.
                    match rustix::fs::unlinkat(directory.fd(), name, AtFlags::empty()) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    Ok(rustix::fs::renameat(directory.fd(), &*unfinished, directory.fd(), name)?)
                })
            });
        if written.is_err() {
            self.within(path, |directory| {
                Ok(rustix::fs::unlinkat(directory.fd(), &*unfinished, AtFlags::empty())?)
            })
            .ok();
        }
        written
    }

    fn make_directory(&mut self, path: &TreePath) {
        let name = OsStr::from_bytes(path.name());
        let made = self.within(path, |directory| {
            match rustix::fs::mkdirat(directory.fd(), name, Mode::from_raw_mode(0o700)) {
                Err(Errno::EXIST)
                    if directory.look(path.name())?.file_type == FileType::Directory =>
                {
                    Ok(())
                }
                made => Ok(made?),
            }
        });
        if let Err(error) = made {
            self.failed(path, error);
        }
    }

    fn make_fifo(&mut self, path: &TreePath, mode: u32) -> io::Result<()> {
        let name = OsStr::from_bytes(path.name());
        self.within(path, |directory| {
            let own = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(directory.fd(), name, FileType::Fifo, own, 0)?;
            directory.set_mode(path.name(), mode)
        })
    }

    /// Modes come last, because a read-only directory cannot be filled. The innermost come first, because an unreadable
    /// directory hides those inside.
    fn set_directory_modes(&mut self, entries: &BTreeMap<TreePath, Entry>) {
        self.at = None;
        for (path, entry) in entries.iter().rev().filter(|(_, entry)| entry.is_directory()) {
            let set = self.parent_of(path).and_then(|parent| {
                match parent.look_if_there(path.name())? {
                    Some(found)
                        if found.file_type == FileType::Directory && found.mode != entry.mode =>
                    {
                        parent.set_mode(path.name(), entry.mode)
                    }
                    _ => Ok(()),
                }
            });
            if let Err(error) = set {
                self.failed(path, error);
            }
        }
    }
}

fn same_kind(one: &Entry, other: &Entry) -> bool {
    std::mem::discriminant(&one.kind) == std::mem::discriminant(&other.kind)
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
