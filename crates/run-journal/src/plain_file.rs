//! Opening and making files of ours: never through a link, never a FIFO, never for others to read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Only the owner.
const PRIVATE: u32 = 0o600;

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().read(true), path)
}

/// Opens a file for reading and writing.
pub(crate) fn open_writable(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().read(true).write(true), path)
}

/// Opens a file for reading and writing; makes it when it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    plain(
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE),
        path,
    )
}

/// Makes a file that does not exist.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().write(true).create_new(true).mode(PRIVATE), path)
}

/// Reads a file whole, if it has no more than `limit` bytes.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    Ok(bytes)
}

/// Tells whether a write failed because there is no room, be it on the disk, in a quota or under a limit.
pub(crate) fn is_out_of_space(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK a FIFO would hold the caller for as long as nobody opens its other end.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = options.custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"))
    }
}
