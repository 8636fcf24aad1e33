//! Directories and files that exist on the host only because the sandbox mounts something over them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ground::{Durable, replace_file};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::host_path::{Directory, FileIdentity, FileKind, Found};
use crate::request::OWN_COMMON_DIR;
use crate::workspace::{DotCursor, Workspace};

/// The modes of an empty directory and file that Caretaker makes. They identify its own mount points if the record has
/// only the intent.
const MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o400;
/// Other users who share the repository must be able to read the file.
const COMMON_DIR_MODE: u32 = 0o444;

/// The mount points that the shim creates before the run starts and removes after it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountPoints(Vec<MountPoint>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountPoint {
    pub(crate) path: PathBuf,
    pub(crate) kind: PointKind,
}

/// The kind of a mount point: a directory is mounted on a directory, a file on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointKind {
    Directory,
    File,
    /// A file with the text [`OWN_COMMON_DIR`]. Git on the host reads it during the run.
    CommonDir,
}

/// The mount points in the run's `.cursor` for parts of the repository's own `.cursor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotCursorMounts {
    /// The run's `.cursor` on the host.
    pub(crate) ours: PathBuf,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

/// The result of removing a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// Another process removed it earlier.
    Gone,
    /// Another process replaced it. The replacement stays.
    NotOurs,
    /// Another process wrote into it. It stays.
    NotEmpty,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountPointError {
    #[error("`{}` appeared after the workspace was checked", .0.display())]
    Appeared(PathBuf),
    #[error("`{}` cannot be created", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be removed", .path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("the record of mount points `{}` cannot be written or read", .path.display())]
    Record { path: PathBuf, source: io::Error },
}

/// One line of the record. The identity is missing until the mount point exists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    path: PathBuf,
    identity: Option<FileIdentity>,
}

impl MountPoints {
    pub(crate) fn needed_by(workspace: &Workspace, mut placeholders: Vec<MountPoint>) -> Self {
        if workspace.dot_cursor() == DotCursor::Missing {
            let path = workspace.path().join(".cursor");
            placeholders.insert(0, MountPoint { path, kind: PointKind::Directory });
        }
        Self(placeholders)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|point| point.path.as_path())
    }

    /// Creates the mount points. The file `record` gets everything that [`Self::remove_ours`] needs, even after a crash
    /// in between.
    pub fn create(&self, record: &Path) -> Result<(), MountPointError> {
        self.create_and(record, |entries| write_record(record, entries))
    }

    /// Like [`Self::create`], but calls `write` for the record twice: with the intent, and with the created mount
    /// points.
    fn create_and(
        &self,
        record: &Path,
        mut write: impl FnMut(&[Entry]) -> Result<(), MountPointError>,
    ) -> Result<(), MountPointError> {
        if self.is_empty() {
            return Ok(());
        }
        let mut entries: Vec<Entry> =
            self.paths().map(|path| Entry { path: path.to_owned(), identity: None }).collect();
        write(&entries)?;
        let made = make_all(&self.0, &mut entries).and_then(|()| write(&entries));
        if made.is_err() {
            undo(&entries, record);
        }
        made
    }

    /// Removes the mount points in the file `record` that are unchanged and empty, and then the record.
    ///
    /// Does nothing without a record.
    pub fn remove_ours(record: &Path) -> Result<Vec<(PathBuf, Removal)>, MountPointError> {
        let bytes = match std::fs::read(record) {
            Ok(bytes) => bytes,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(record_error(record, source)),
        };
        let mut removals = Vec::new();
        // Later ones are inside earlier ones.
        for entry in read_entries(&bytes).into_iter().rev() {
            let removal = remove(&entry)
                .map_err(|source| MountPointError::Remove { path: entry.path.clone(), source })?;
            removals.push((entry.path, removal));
        }
        std::fs::remove_file(record).map_err(|source| record_error(record, source))?;
        Ok(removals)
    }
}

impl DotCursorMounts {
    /// Returns the directories, relative to the run's `.cursor`.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// Returns the files, relative to the run's `.cursor`.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Creates empty mount points. Existing ones stay.
    pub fn create(&self) -> Result<(), MountPointError> {
        let parents = self.files.iter().filter_map(|file| file.parent());
        for directory in self.directories().chain(parents) {
            let path = self.ours.join(directory);
            std::fs::create_dir_all(&path)
                .map_err(|source| MountPointError::Create { path, source })?;
        }
        for file in &self.files {
            let path = self.ours.join(file);
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            opened.map_err(|source| MountPointError::Create { path, source })?;
        }
        Ok(())
    }
}

fn make_all(points: &[MountPoint], entries: &mut [Entry]) -> Result<(), MountPointError> {
    for (point, entry) in points.iter().zip(entries) {
        match create(point) {
            Ok(identity) => entry.identity = Some(identity),
            Err(err) => {
                let path = entry.path.clone();
                return Err(match Errno::from_io_error(&err) {
                    Some(Errno::EXIST) => MountPointError::Appeared(path),
                    _ => MountPointError::Create { path, source: err },
                });
            }
        }
    }
    Ok(())
}

/// Removes the mount points created so far. It knows them from memory, because on a full disk the record may lack them.
/// It removes the record too: an intent in it would make another process's directory look like Caretaker's.
fn undo(entries: &[Entry], record: &Path) {
    for entry in entries.iter().rev().filter(|entry| entry.identity.is_some()) {
        remove(entry).ok();
    }
    std::fs::remove_file(record).ok();
}

fn create(point: &MountPoint) -> io::Result<FileIdentity> {
    let (parent, name) = parent_and_name(&point.path)?;
    match point.kind {
        PointKind::Directory => {
            rustix::fs::mkdirat(parent.fd(), name, Mode::from_raw_mode(MODE))?;
        }
        PointKind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(FILE_MODE);
            drop(rustix::fs::openat(parent.fd(), name, flags, mode)?);
        }
        PointKind::CommonDir => create_common_dir(&parent, name)?,
    }
    let found = parent.look(Path::new(name))?;
    found.map(|found| found.identity).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Creates the file with its content in one step, because git fails on an empty one.
fn create_common_dir(parent: &Directory, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let unfinished = format!(".caretaker-{}", std::process::id());
    // A process killed at this point may have left one.
    rustix::fs::unlinkat(parent.fd(), &*unfinished, AtFlags::empty()).ok();
    let mode = Mode::from_raw_mode(COMMON_DIR_MODE);
    let fd = rustix::fs::openat(parent.fd(), &*unfinished, flags, mode)?;
    let made = File::from(fd).write_all(OWN_COMMON_DIR).and_then(|()| {
        // Unlike a rename, a link never replaces a file that appeared meanwhile.
        let link =
            rustix::fs::linkat(parent.fd(), &*unfinished, parent.fd(), name, AtFlags::empty());
        Ok(link?)
    });
    rustix::fs::unlinkat(parent.fd(), &*unfinished, AtFlags::empty())?;
    made
}

fn remove(entry: &Entry) -> io::Result<Removal> {
    let (parent, name) = match parent_and_name(&entry.path) {
        Ok(found) => found,
        // The workspace is gone, or its path now has a symlink.
        Err(err) if is_gone(&err) => return Ok(Removal::Gone),
        Err(err) => return Err(err),
    };
    let Some(found) = parent.look(Path::new(name))? else { return Ok(Removal::Gone) };
    if !is_ours(&found, entry.identity) {
        return Ok(Removal::NotOurs);
    }
    let flags = match found.kind {
        FileKind::File => {
            let stat = rustix::fs::statat(parent.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
            if stat.st_size != 0 && !holds_what_we_wrote(&parent, name) {
                return Ok(Removal::NotEmpty);
            }
            AtFlags::empty()
        }
        _ => AtFlags::REMOVEDIR,
    };
    match rustix::fs::unlinkat(parent.fd(), name, flags) {
        Ok(()) => Ok(Removal::Removed),
        Err(Errno::NOENT) => Ok(Removal::Gone),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removal::NotEmpty),
        Err(err) => Err(err.into()),
    }
}

fn holds_what_we_wrote(parent: &Directory, name: &OsStr) -> bool {
    let most = OWN_COMMON_DIR.len() as u64;
    parent.read_small(Path::new(name), most).is_ok_and(|content| content == OWN_COMMON_DIR)
}

fn is_ours(found: &Found, identity: Option<FileIdentity>) -> bool {
    match identity {
        Some(identity) => found.identity == identity,
        None => {
            let is_plain = match found.kind {
                FileKind::Directory => found.mode == MODE,
                // The user's umask may have removed bits.
                FileKind::File => found.mode | COMMON_DIR_MODE == COMMON_DIR_MODE,
                _ => false,
            };
            is_plain && found.uid == rustix::process::getuid().as_raw()
        }
    }
}

fn is_gone(err: &io::Error) -> bool {
    matches!(Errno::from_io_error(err), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn parent_and_name(path: &Path) -> io::Result<(Directory, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((Directory::open(parent)?, name))
}

fn record_error(path: &Path, source: io::Error) -> MountPointError {
    MountPointError::Record { path: path.to_owned(), source }
}

/// Replaces the record: `<device> <inode> <path>` and a NUL for each entry, with zeros for an unknown identity.
fn write_record(record: &Path, entries: &[Entry]) -> Result<(), MountPointError> {
    let mut bytes = Vec::new();
    for entry in entries {
        let identity = entry.identity.unwrap_or(FileIdentity { device: 0, inode: 0 });
        bytes.extend_from_slice(format!("{} {} ", identity.device, identity.inode).as_bytes());
        bytes.extend_from_slice(entry.path.as_os_str().as_bytes());
        bytes.push(0);
    }
    replace_file(record, &bytes, Durable::No).map_err(|source| record_error(record, source))
}

/// Parses the record. Skips invalid entries, because removing too little is safe.
fn read_entries(bytes: &[u8]) -> Vec<Entry> {
    let entry = |line: &[u8]| {
        let mut fields = line.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().ok();
        let (device, inode) = (number()?, number()?);
        let path = PathBuf::from(OsString::from_vec(fields.next()?.to_vec()));
        let identity = (inode != 0).then_some(FileIdentity { device, inode });
        path.is_absolute().then_some(Entry { path, identity })
    };
    bytes.split(|byte| *byte == 0).filter_map(entry).collect()
}

#[cfg(test)]
#[path = "mount_points_tests.rs"]
mod tests;
