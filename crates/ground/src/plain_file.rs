//! Opens files that another process can replace at any time: without following a link and without waiting on a FIFO.
//! New files are private.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Only the owner may read or write.
const PRIVATE: u32 = 0o600;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().read(true), path)
}

/// Opens a file for reading and writing.
pub fn open_writable(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().read(true).write(true), path)
}

/// Opens a file for reading and writing; creates it if it is missing.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    plain(
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE),
        path,
    )
}

/// Creates a file; fails if it exists.
pub fn create_new(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().write(true).create_new(true).mode(PRIVATE), path)
}

/// Reads a whole file of at most `limit` bytes.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    // Room for the whole file and its end, so that one call reads it. The length may still change.
    let expected = file.metadata()?.len().min(limit).saturating_add(1);
    let bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
    read_to_end(file, bytes, limit)
}

/// Reads to the end. Fails with [`io::ErrorKind::FileTooLarge`] after `limit` bytes.
pub fn read_whole(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    read_to_end(from, Vec::new(), limit)
}

fn read_to_end(from: impl Read, mut bytes: Vec<u8>, limit: u64) -> io::Result<Vec<u8>> {
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let what = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// True if a write failed because the disk is full or a quota or limit is exhausted.
pub fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without NONBLOCK, opening a FIFO waits for another process.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_fifo_nor_a_link_nor_a_directory_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        for name in ["fifo", "link", "."] {
            assert!(open(&at(name)).is_err(), "{name}");
        }
        assert_eq!(read_at_most(&at("file"), 5).unwrap(), b"12345");
        let too_large = read_at_most(&at("file"), 4).unwrap_err();
        assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
    }
}
