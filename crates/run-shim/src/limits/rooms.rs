//! The directories that a sandbox has in memory: `/tmp`, the private home, `/dev/shm` and the like.
//!
//! Each has a size, and the kernel holds it: whoever writes more is told that there is no space left. That ends no run by
//! itself, so we look: a directory that is full ends its run, and the outcome says which one it was.
//!
//! What it promises: a directory that is full for a second, or full when the agent is gone, is seen. What it does not: one
//! that was full for a moment and has room again, which the kernel tells nobody of.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use run_protocol::LimitKind;
use tokio::sync::mpsc::Sender;

use super::watching::Watching;

/// A look is one call for each of a handful of directories, and the kernel holds their size meanwhile.
const EVERY: Duration = Duration::from_secs(1);

/// A directory in memory.
#[derive(Debug)]
pub(crate) struct Room {
    /// What it is to have filled it.
    limit: LimitKind,
    /// Keeps the file system, and so the answer, when the sandbox is gone.
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
            // Names take no room of their own, so they are counted apart.
            stat.f_blocks > 0 && stat.f_bfree == 0 || stat.f_files > 0 && stat.f_ffree == 0
        })
    }
}

/// How much of a directory in memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoomUse {
    /// The device that its files are on.
    pub(super) device: u64,
    pub(super) bytes: u64,
}

/// All that a sandbox has.
#[derive(Debug, Clone, Default)]
pub(super) struct Rooms(Arc<[Room]>);

impl Rooms {
    pub(super) fn new(rooms: Vec<Room>) -> Self {
        Self(rooms.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much is in each. Files that have no name any more are part of it.
    pub(super) fn used(&self) -> impl Iterator<Item = RoomUse> {
        self.0.iter().filter_map(Room::used)
    }

    /// What it is to have filled the first that is full.
    pub(super) fn full(&self) -> Option<LimitKind> {
        self.0.iter().find(|room| room.is_full()).map(|room| room.limit.clone())
    }

    /// Tells of one that is full, until what is returned is dropped.
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
