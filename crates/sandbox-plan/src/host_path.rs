//! Examines host paths without following symlinks that an agent may have planted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The numbers that identify a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Directory,
    File,
    Symlink,
    Fifo,
    Socket,
    Device,
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Directory => "a directory",
            Self::File => "a file",
            Self::Symlink => "a symlink",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

/// The file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) kind: FileKind,
    pub(crate) identity: FileIdentity,
    pub(crate) uid: u32,
    pub(crate) mode: u32,
    /// True if the file has more than one hard link. A directory has one for each of its subdirectories.
    pub(crate) has_other_names: bool,
}

/// An open directory. It finds only files below itself, even if another process renames the directory.
#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

// The kernel returns a symlink at the end of a path as a symlink. For a symlink earlier in the path, it returns ELOOP.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// Opens a directory by a path without symlinks.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = LOOK | OFlags::DIRECTORY;
        Ok(Self(rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?))
    }

    /// Returns the file at a path below this directory, if one exists.
    pub(crate) fn look(&self, relative: &Path) -> io::Result<Option<Found>> {
        found_or_none(self.resolve(relative, LOOK))
    }

    /// Reads a small regular file.
    pub(crate) fn read_small(&self, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = self.resolve(relative, flags)?;
        if Found::of(&fd)?.kind != FileKind::File {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(fd).take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::other("the file is too long"));
        }
        Ok(bytes)
    }

    /// Opens a directory below this one, to list it.
    pub(crate) fn open_to_list(&self, relative: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.resolve(relative, flags)?)
    }

    pub(crate) fn found(&self) -> io::Result<Found> {
        Found::of(&self.0)
    }

    pub(crate) fn fd(&self) -> impl AsFd {
        self.0.as_fd()
    }

    fn resolve(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = NO_LINKS | ResolveFlags::BENEATH;
        rustix::fs::openat2(&self.0, relative, flags, Mode::empty(), resolve)
    }
}

impl From<OwnedFd> for Directory {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Found {
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => FileKind::Directory,
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            _ => FileKind::Device,
        };
        Ok(Self {
            kind,
            identity: FileIdentity { device: stat.st_dev, inode: stat.st_ino },
            uid: stat.st_uid,
            mode: stat.st_mode & 0o7777,
            has_other_names: stat.st_nlink > 1,
        })
    }
}

/// Returns the file at an absolute path. Only the last name of the path may be a symlink.
pub(crate) fn look(path: &Path) -> io::Result<Option<Found>> {
    found_or_none(rustix::fs::openat2(CWD, path, LOOK, Mode::empty(), NO_LINKS))
}

fn found_or_none(opened: Result<OwnedFd, Errno>) -> io::Result<Option<Found>> {
    match opened {
        Ok(fd) => Found::of(&fd).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

/// Follows symlinks, and returns the file that a path leads to, with its physical path.
///
/// Use it for paths that the user or the system made, never for paths in a workspace.
pub(crate) fn resolve(path: &Path) -> io::Result<Option<(PathBuf, Found)>> {
    // Most paths have no symlink, and then one system call is enough.
    match look(path) {
        Ok(Some(found)) if found.kind != FileKind::Symlink && is_plain(path) => {
            return Ok(Some((path.to_owned(), found)));
        }
        Ok(None) => return Ok(None),
        Ok(Some(_)) => {}
        Err(err) if Errno::from_io_error(&err) == Some(Errno::LOOP) => {}
        Err(err) => return Err(err),
    }
    let physical = match std::fs::canonicalize(path) {
        Ok(physical) => physical,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    Ok(look(&physical)?.map(|found| (physical, found)))
}

/// Returns the physical path of one of the user's directories. A directory that does not exist keeps its path.
pub(crate) fn physical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| plain(path))
}

/// Returns true if a path is absolute and plain: no `.`, no `..`, no repeated or trailing slash.
pub(crate) fn is_plain(path: &Path) -> bool {
    path.is_absolute() && plain(path).as_os_str() == path.as_os_str()
}

/// Removes `.` and repeated slashes from a path, and resolves `..` by name.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

pub(crate) fn has_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}
