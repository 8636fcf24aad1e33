//! Checks that a run still has its session, before the run appends to its journal.
//!
//! No process can take a kernel lock from its holder. But the lock's file may be deleted, moved with the state
//! directory, replaced by a backup, or given to another holder by a network file system that lost its server. Then
//! another run may have the session, and this run is stale.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::session::held_lock::HeldLock;

/// The lease, and the stamp of its file when the run certainly had it. A `stat` shows whether it may have changed
/// since.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    lease: Arc<HeldLock>,
    seen: Option<Stamp>,
}

/// A fingerprint that differs if a process replaced the file or wrote to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    identity: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl LeaseWatch {
    pub(crate) fn new(lease: Arc<HeldLock>) -> Self {
        Self { lease, seen: None }
    }

    /// Returns whether the run still has the session.
    pub(crate) fn is_ours(&mut self) -> bool {
        // First the stamp, then the check: the next call notices a change in between.
        let stamp = Stamp::of(self.lease.path());
        if stamp.is_some() && stamp == self.seen {
            return true;
        }
        let is_ours = self.lease.is_current();
        self.seen = stamp.filter(|_| is_ours);
        is_ours
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self {
            identity: (found.dev(), found.ino()),
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
#[path = "lease_watch_tests.rs"]
mod tests;
