//! One inotify instance for everything the daemon watches: a user has few of them.

use std::ffi::OsString;
use std::io;
use std::path::Path;

pub(crate) use ground::inotify::Watch;
use ground::inotify::{Change, WatchFlags};
use tokio::io::unix::AsyncFd;

use crate::pollable::pollable;

#[derive(Debug)]
pub(crate) struct Inotify {
    kernel: AsyncFd<ground::inotify::Inotify>,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// To what is watched, or to the file of this name in it.
    Change { watch: Watch, name: Option<OsString> },
    /// The watch is no more.
    Gone(Watch),
    /// More than the kernel could keep: everything may have changed.
    Overflow,
}

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { kernel: pollable(ground::inotify::Inotify::new()?)? })
    }

    /// Directories that appear in this one by being renamed into it.
    pub(crate) fn watch_arrivals(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        self.kernel.get_ref().add(path, flags)
    }

    /// Writes to any file in this directory.
    pub(crate) fn watch_writes_in(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONLYDIR;
        self.kernel.get_ref().add(path, flags)
    }

    /// Writes to a file.
    pub(crate) fn watch_writes(&self, path: &Path) -> io::Result<Watch> {
        self.kernel.get_ref().add(path, WatchFlags::MODIFY)
    }

    /// Writes to a lock's note, and the end of whoever could have held it.
    pub(crate) fn watch_lock(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        self.kernel.get_ref().add(path, flags)
    }

    pub(crate) fn forget(&self, watch: Watch) {
        self.kernel.get_ref().remove(watch);
    }

    /// Waits until something happened, and returns all of it.
    pub(crate) async fn next(&self) -> io::Result<Vec<Happened>> {
        loop {
            let mut ready = self.kernel.readable().await?;
            let changes = self.kernel.get_ref().read()?;
            ready.clear_ready();
            if !changes.is_empty() {
                return Ok(changes.into_iter().map(Happened::from).collect());
            }
        }
    }
}

impl From<Change> for Happened {
    fn from(change: Change) -> Self {
        if change.is_overflow() {
            Self::Overflow
        } else if change.is_end_of_watch() {
            Self::Gone(change.watch)
        } else {
            Self::Change { watch: change.watch, name: change.name }
        }
    }
}
