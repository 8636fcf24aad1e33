//! Reserved space for the closing events of a run, so that they fit on a full disk.
//!
//! ```text
//!   |<── lines ──>|<── next lines ──>|<────── reserve ──────>|     blocks that belong to the journal
//!                end              end + batch          allocated_to
//! ```
//!
//! The reserve is in the journal's own file, after its end. If the shim freed separate space only when needed, the
//! process that fills the disk would take it. The reserve moves as the journal grows; if it cannot, the disk counts as
//! full.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// The size of the reserve.
const RESERVE: u64 = 8 * 1024 * 1024;
/// How much more to allocate at once, so that not every batch has to allocate: the journal's own size, within these
/// bounds. On a file system in memory, every allocated byte uses memory.
const STEP: std::ops::RangeInclusive<u64> = 64 * 1024..=16 * 1024 * 1024;

/// The space after the end of a journal.
#[derive(Debug)]
pub(crate) struct Reserve {
    allocated_to: u64,
    use_of: ReserveUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReserveUse {
    Kept,
    Open,
    /// The file system cannot reserve space.
    Impossible,
}

impl Reserve {
    /// Reserves space after `end`.
    pub(crate) fn behind(file: &File, end: u64) -> io::Result<Self> {
        let mut reserve = Self { allocated_to: end, use_of: ReserveUse::Kept };
        reserve.make_room(file, end)?;
        Ok(reserve)
    }

    /// Makes sure that lines up to `end` fit without the reserve.
    pub(crate) fn make_room(&mut self, file: &File, end: u64) -> io::Result<()> {
        let needed = end + RESERVE;
        if self.use_of != ReserveUse::Kept || needed <= self.allocated_to {
            return Ok(());
        }
        let step = end.clamp(*STEP.start(), *STEP.end());
        match self.allocate_to(file, needed + step) {
            Err(Errno::ENOSPC | Errno::EDQUOT) => Ok(self.allocate_to(file, needed)?),
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL | Errno::ENODEV) => {
                self.use_of = ReserveUse::Impossible;
                Ok(())
            }
            answer => Ok(answer?),
        }
    }

    fn allocate_to(&mut self, file: &File, end: u64) -> Result<(), Errno> {
        let start = i64::try_from(self.allocated_to).map_err(|_| Errno::EFBIG)?;
        let length = i64::try_from(end - self.allocated_to).map_err(|_| Errno::EFBIG)?;
        loop {
            match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, start, length) {
                Ok(()) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.allocated_to = end;
        Ok(())
    }

    /// From now on lines may fill the reserve.
    pub(crate) fn open(&mut self) {
        if self.use_of == ReserveUse::Kept {
            self.use_of = ReserveUse::Open;
        }
    }

    /// Cuts the file at `end`, which frees all space after it.
    pub(crate) fn cut(&mut self, file: &File, end: u64) -> io::Result<()> {
        file.set_len(end)?;
        self.allocated_to = end;
        Ok(())
    }
}
