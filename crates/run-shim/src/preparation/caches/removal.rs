//! Removes a directory tree that agents have written, including the read-only directories that Go makes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The greatest depth. Each level needs a few descriptors.
const DEEPEST: usize = 200;

/// Removes a tree without following links. A missing tree is fine.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match open(CWD, path) {
        Ok(_) => remove_in(CWD, path, 0),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn remove_in(parent: BorrowedFd<'_>, name: &Path, depth: usize) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    if depth > DEEPEST {
        return Err(io::Error::other("its directories are nested too deeply"));
    }
    let directory = open(parent, name)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let below = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        match entry.file_type() {
            _ if below == Path::new(".") || below == Path::new("..") => {}
            FileType::Directory => {
                remove_in(std::os::fd::AsFd::as_fd(&directory), below, depth + 1)?
            }
            _ => rustix::fs::unlinkat(&directory, below, AtFlags::empty())?,
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Opens a directory to empty it. Makes it writable through a descriptor, so that a link cannot redirect the change.
fn open(parent: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        let own = format!("/proc/self/fd/{}", place.as_raw_fd());
        rustix::fs::chmod(own, Mode::RWXU)?;
    }
    rustix::fs::openat(&place, ".", flags | OFlags::RDONLY, Mode::empty())
}
