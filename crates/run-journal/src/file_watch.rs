//! Being told by the kernel that a journal has grown, or that its writer may be gone.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::RunDirectory;
use crate::control_watch::wait_readable;

/// An inotify instance on a run's journal and lock.
#[derive(Debug)]
pub(crate) struct FileWatch {
    inotify: Inotify,
    lock: WatchDescriptor,
}

/// What happened to the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChange {
    Nothing,
    /// Somebody who could have held the lock closed it.
    LockClosed,
    Journal,
}

impl FileWatch {
    pub(crate) fn of(directory: &RunDirectory) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(&directory.journal_path(), AddWatchFlags::IN_MODIFY)?;
        // A holder writes its note when it has the lock: then its socket is not far.
        let lock_events = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE;
        let lock = inotify.add_watch(&directory.lock_path(), lock_events)?;
        Ok(Self { inotify, lock })
    }

    /// Waits for at most as long as `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<FileChange> {
        if !wait_readable(&self.inotify, patience)? {
            return Ok(FileChange::Nothing);
        }
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(FileChange::Nothing),
            Err(errno) => return Err(errno.into()),
        };
        let mut change = FileChange::Nothing;
        for event in events {
            if event.wd != self.lock {
                return Ok(FileChange::Journal);
            }
            if event.mask.contains(AddWatchFlags::IN_CLOSE_WRITE) {
                change = FileChange::LockClosed;
            }
        }
        Ok(change)
    }
}
