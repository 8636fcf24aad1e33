//! Waits until the kernel reports that a journal has grown, or that its writer may be gone.

use std::io;
use std::time::Duration;

use ground::inotify::{Inotify, ReadFlags, Watch, WatchFlags};

use crate::RunDirectory;

/// An inotify instance on a run's journal and lock.
#[derive(Debug)]
pub(crate) struct FileWatch {
    inotify: Inotify,
    lock: Watch,
}

/// A change to the watched files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChange {
    Nothing,
    /// A process that may have held the lock closed it.
    LockClosed,
    Journal,
}

impl FileWatch {
    pub(crate) fn of(directory: &RunDirectory) -> io::Result<Self> {
        let inotify = Inotify::new()?;
        inotify.add(&directory.journal_path(), WatchFlags::MODIFY)?;
        // A process writes its note once it holds the lock, and its socket exists soon after that.
        let lock_events = WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        let lock = inotify.add(&directory.lock_path(), lock_events)?;
        Ok(Self { inotify, lock })
    }

    /// Waits for at most `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<FileChange> {
        if !self.inotify.wait(Some(patience))? {
            return Ok(FileChange::Nothing);
        }
        let mut change = FileChange::Nothing;
        for event in self.inotify.read()? {
            if event.watch != self.lock {
                return Ok(FileChange::Journal);
            }
            if event.what.contains(ReadFlags::CLOSE_WRITE) {
                change = FileChange::LockClosed;
            }
        }
        Ok(change)
    }
}
