//! Reads and changes files below one directory, and never follows a symlink.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::snapshot::{EntryKind, Stamp};
use crate::tree_path::TreePath;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
/// The kernel accepts paths of up to 4096 bytes, with the final NUL.
const LONGEST_PATH: usize = 4000;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A workspace that is held open. All work happens below this descriptor, even if the directory is renamed.
#[derive(Debug)]
pub(crate) struct FileTree {
    root: OwnedFd,
    path: PathBuf,
}

/// An open directory of the tree.
#[derive(Debug)]
pub(crate) struct OpenDirectory(OwnedFd);

/// The metadata of one name.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) file_type: FileType,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// The number of hard links.
    pub(crate) links: u64,
    pub(crate) stamp: Stamp,
}

impl FileTree {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | DIRECTORY;
        let root = rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?;
        Ok(Self { root, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory in this tree.
    pub(crate) fn enter(&self, path: &TreePath) -> Result<OpenDirectory, Errno> {
        let directory = self.directory(path)?;
        directory.look(b".")?;
        Ok(directory)
    }

    /// Opens a directory of the tree, or the workspace itself, for reading and changing.
    pub(crate) fn directory(&self, path: &TreePath) -> Result<OpenDirectory, Errno> {
        let flags = OFlags::RDONLY | DIRECTORY;
        let resolve = NO_LINKS | ResolveFlags::BENEATH;
        let open = |at: BorrowedFd<'_>, relative: &[u8]| {
            let relative = Path::new(OsStr::from_bytes(relative));
            rustix::fs::openat2(at, relative, flags, Mode::empty(), resolve)
        };
        let mut rest = path.as_bytes();
        let mut opened = None;
        // The kernel does not accept a longer path, but a tree may be deeper.
        while rest.len() > LONGEST_PATH {
            let end = rest[..LONGEST_PATH].iter().rposition(|byte| *byte == b'/');
            let (piece, after) = rest.split_at(end.ok_or(Errno::NAMETOOLONG)?);
            let at = opened.as_ref().unwrap_or(&self.root).as_fd();
            opened = Some(open(at, piece)?);
            rest = &after[1..];
        }
        let at = opened.as_ref().unwrap_or(&self.root).as_fd();
        Ok(OpenDirectory(open(at, if rest.is_empty() { b"." } else { rest })?))
    }
}

/// Makes a directory readable that the caller owns but cannot list or enter. Returns true if that was necessary.
pub(crate) fn open_up(path: &Path) -> io::Result<bool> {
    let opened = FileTree::open(path).and_then(|tree| Ok(tree.enter(&TreePath::default())?));
    match opened {
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::PATH | DIRECTORY;
    let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?;
    give_owner_all(&fd).map(|()| true)
}

/// Lets the owner list, enter and change a directory. The descriptor may be opened with `O_PATH`.
fn give_owner_all(fd: &OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(fd)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS.into());
    }
    set_mode_of(fd, (stat.st_mode & 0o7777) | 0o700)
}

/// Such a descriptor cannot change the mode itself, but its name below /proc leads to the same file.
fn set_mode_of(fd: &OwnedFd, mode: u32) -> io::Result<()> {
    let through = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(rustix::fs::chmod(through, Mode::from_raw_mode(mode))?)
}

impl OpenDirectory {
    /// Makes a child directory readable that the caller owns but cannot list or enter.
    pub(crate) fn open_up(&self, name: &[u8]) -> io::Result<()> {
        let flags = OFlags::PATH | DIRECTORY;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        give_owner_all(&fd)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Returns the names in the directory, unsorted.
    pub(crate) fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let flow = self.each_entry(|name, _| {
            names.push(name.to_vec());
            ControlFlow::Continue(())
        });
        flow.map(|_| names)
    }

    /// Passes each name with its type to `each`, unsorted, until `each` breaks.
    pub(crate) fn each_entry(
        &self,
        mut show: impl FnMut(&[u8], FileType) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let file_type = match entry.file_type() {
                // Not every file system reports the type, and the file may already be gone.
                FileType::Unknown => match self.look(name) {
                    Ok(found) => found.file_type,
                    Err(_) => continue,
                },
                known => known,
            };
            if show(name, file_type).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(crate) fn look(&self, name: &[u8]) -> Result<Found, Errno> {
        let stat = rustix::fs::statat(&self.0, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Found::of(&stat))
    }

    /// Returns the metadata of a name, or `None` if it does not exist.
    pub(crate) fn look_if_there(&self, name: &[u8]) -> Result<Option<Found>, Errno> {
        match self.look(name) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a regular file for reading. Refuses everything else without blocking, even if it has just replaced the
    /// file.
    pub(crate) fn open_file(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(File::from(fd))
    }

    pub(crate) fn read_link(&self, name: &[u8]) -> Result<PathBuf, Errno> {
        let target = rustix::fs::readlinkat(&self.0, OsStr::from_bytes(name), Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Returns the content of a small text file, or `None` if it cannot be read as one.
    pub(crate) fn small_text(&self, name: &[u8], most: u64) -> Option<String> {
        Some(String::from_utf8_lossy(&self.small_bytes(name, most)?).into_owned())
    }

    /// Returns the content of a regular file that is not too long.
    pub(crate) fn small_bytes(&self, name: &[u8], most: u64) -> Option<Vec<u8>> {
        let file = self.open_file(name).ok()?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= most).then_some(bytes)
    }

    /// Sets the mode of a file, even if this process may not read it. Links have no mode.
    pub(crate) fn set_mode(&self, name: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(io::Error::other("a link has no mode"));
        }
        set_mode_of(&fd, mode)
    }
}

impl Found {
    fn of(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: u64| {
            seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(rest).unwrap_or(0))
        };
        #[allow(clippy::useless_conversion, reason = "its width differs between processors")]
        let links = u64::from(stat.st_nlink);
        Self {
            file_type: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            links,
            stamp: Stamp {
                modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
                changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
                inode: stat.st_ino,
                device: stat.st_dev,
            },
        }
    }

    /// Returns the kind of entry, unless that requires reading a link.
    pub(crate) fn plain_kind(&self) -> Option<EntryKind> {
        match self.file_type {
            FileType::RegularFile => Some(EntryKind::File { size: self.size, id: String::new() }),
            FileType::Directory => Some(EntryKind::Directory),
            FileType::Fifo => Some(EntryKind::Fifo),
            FileType::Socket => Some(EntryKind::Socket),
            FileType::Symlink => None,
            _ => Some(EntryKind::Device),
        }
    }
}
