//! Whether a run still has its session: looked at before anything is appended to its journal.
//!
//! No kernel lock can be taken from its holder, but its file can: deleted, moved away with the state directory, replaced by
//! a backup, or given to another by a network file system that has lost its server. Then somebody else may have the
//! session by right, and this run is a stale one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::session::held_lock::HeldLock;

/// The lease as it was when it was last known to be ours. A `stat` tells whether it may be another by now.
#[derive(Debug)]
pub(crate) struct LeaseWatch {
    lease: Arc<HeldLock>,
    seen: Option<Stamp>,
}

/// Changes whenever the file is another, or has other content.
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

    /// Tells whether the session is still the run's.
    pub(crate) fn is_ours(&mut self) -> bool {
        // Taken before the look, so that a change in between is looked at the next time.
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
