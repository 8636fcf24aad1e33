//! The daemon's only inotify instance: a user has few of them.

use std::ffi::OsString;
use std::io;
use std::path::Path;

pub(crate) use ground::inotify::Watch;
use ground::inotify::{Change, WatchFlags};
use tokio::io::unix::AsyncFd;

use crate::run_watch::pollable::pollable;

#[derive(Debug)]
pub(crate) struct Inotify {
    kernel: AsyncFd<ground::inotify::Inotify>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The watched file changed, or the file of this name in the watched directory.
    Change { watch: Watch, name: Option<OsString> },
    /// The kernel removed the watch.
    Gone(Watch),
    /// The kernel lost events: everything may have changed.
    Overflow,
}

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { kernel: pollable(ground::inotify::Inotify::new()?)? })
    }

    /// Watches for directories that are renamed into this one.
    pub(crate) fn watch_arrivals(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        self.kernel.get_ref().add(path, flags)
    }

    /// Watches for writes to any file in this directory.
    pub(crate) fn watch_writes_in(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONLYDIR;
        self.kernel.get_ref().add(path, flags)
    }

    /// Watches for writes to a file.
    pub(crate) fn watch_writes(&self, path: &Path) -> io::Result<Watch> {
        self.kernel.get_ref().add(path, WatchFlags::MODIFY)
    }

    /// Watches for writes to a lock's note, and for the end of a process that may have held the lock.
    pub(crate) fn watch_lock(&self, path: &Path) -> io::Result<Watch> {
        let flags = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        self.kernel.get_ref().add(path, flags)
    }

    pub(crate) fn forget(&self, watch: Watch) {
        self.kernel.get_ref().remove(watch);
    }

    /// Waits until something happened, and returns all events.
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
