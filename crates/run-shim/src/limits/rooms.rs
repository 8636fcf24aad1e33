//! Watches a sandbox's in-memory directories: `/tmp`, the private home, `/dev/shm` and others.
//!
//! Each has a size, and the kernel enforces it: a program that writes more gets "no space left". The kernel does not
//! end the run, so the shim checks for full directories, and ends the run with an outcome that names the directory.
//!
//! The shim notices a directory that is full for a second, or full at the agent's end. It may miss a directory that was
//! full only for a moment, because the kernel does not report it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use run_protocol::LimitKind;
use tokio::sync::mpsc::Sender;

use super::watching::Watching;

/// The interval between two checks. A check is one call for each directory, and the kernel enforces the sizes
/// meanwhile.
const EVERY: Duration = Duration::from_secs(1);

/// An in-memory directory.
#[derive(Debug)]
pub(crate) struct Room {
    /// The limit that a full directory reaches.
    limit: LimitKind,
    /// Keeps the file system alive after the sandbox's end, to check it then.
    directory: OwnedFd,
}

impl Room {
    pub(crate) fn new(limit: LimitKind, directory: OwnedFd) -> Self {
        Self { limit, directory }
    }

    fn used(&self) -> Option<RoomUse> {
        let stat = rustix::fs::fstatvfs(&self.directory).ok()?;
        let device = rustix::fs::fstat(&self.directory).ok()?.st_dev;
        let bytes = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
        Some(RoomUse { device, bytes })
    }

    fn is_full(&self) -> bool {
        rustix::fs::fstatvfs(&self.directory).is_ok_and(|stat| {
            // Empty files take inodes but no blocks, so check both.
            stat.f_blocks > 0 && stat.f_bfree == 0 || stat.f_files > 0 && stat.f_ffree == 0
        })
    }
}

/// The use of an in-memory directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoomUse {
    /// The device of its files.
    pub(super) device: u64,
    pub(super) bytes: u64,
}

/// All in-memory directories of a sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Rooms(Arc<[Room]>);

impl Rooms {
    pub(super) fn new(rooms: Vec<Room>) -> Self {
        Self(rooms.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the use of each. It includes unlinked files.
    pub(super) fn used(&self) -> impl Iterator<Item = RoomUse> {
        self.0.iter().filter_map(Room::used)
    }

    /// Returns the limit of the first full directory.
    pub(super) fn full(&self) -> Option<LimitKind> {
        self.0.iter().find(|room| room.is_full()).map(|room| room.limit.clone())
    }

    /// Reports a full directory, until the returned watch is dropped.
    pub(super) fn watch(&self, tell: Sender<LimitKind>) -> io::Result<Option<Watching>> {
        if self.is_empty() {
            return Ok(None);
        }
        let rooms = self.clone();
        let watching = Watching::start("rooms", move |wait| {
            while wait(EVERY) {
                if let Some(limit) = rooms.full() {
                    tell.blocking_send(limit).ok();
                    return;
                }
            }
        });
        watching.map(Some)
    }
}
