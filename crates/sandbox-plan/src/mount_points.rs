//! Directories and files that must exist on the host only because something is mounted over them.

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

/// What nobody but us gives an empty directory or file: it marks ours where the record has no more than the intent.
const MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o400;
/// Whoever shares the repository must be able to read it.
const COMMON_DIR_MODE: u32 = 0o444;

/// What to create before the start and to remove after the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountPoints(Vec<MountPoint>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountPoint {
    pub(crate) path: PathBuf,
    pub(crate) kind: PointKind,
}

/// What a mount needs below it: a directory for a directory, a file for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointKind {
    Directory,
    File,
    /// A file that holds [`OWN_COMMON_DIR`]: git on the host reads it while the run lasts.
    CommonDir,
}

/// What must be in our `.cursor` so that parts of the repository's own can be mounted on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DotCursorMounts {
    /// Of the run, on the host.
    pub(crate) ours: PathBuf,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

/// What became of a directory of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// Somebody removed it before us.
    Gone,
    /// Somebody put another in its place, which stays.
    NotOurs,
    /// Somebody put something into it, which stays.
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

/// One line of the record. The identity is missing between the intent and the deed.
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

    /// Creates them, and leaves in the file `record` what [`Self::remove_ours`] needs, also after a crash in between.
    pub fn create(&self, record: &Path) -> Result<(), MountPointError> {
        self.create_and(record, |entries| write_record(record, entries))
    }

    /// As [`Self::create`], with `write` for the record: first what we are about to make, then what we made.
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
            take_back(&entries, record);
        }
        made
    }

    /// Removes what the file `record` says we created, if it is still that and empty, and then the record.
    ///
    /// Without a record there is nothing to do.
    pub fn remove_ours(record: &Path) -> Result<Vec<(PathBuf, Removal)>, MountPointError> {
        let bytes = match std::fs::read(record) {
            Ok(bytes) => bytes,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(record_error(record, source)),
        };
        let mut removals = Vec::new();
        for entry in read_entries(&bytes) {
            let removal = remove(&entry)
                .map_err(|source| MountPointError::Remove { path: entry.path.clone(), source })?;
            removals.push((entry.path, removal));
        }
        std::fs::remove_file(record).map_err(|source| record_error(record, source))?;
        Ok(removals)
    }
}

impl DotCursorMounts {
    /// Relative to our `.cursor`.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }

    /// Relative to our `.cursor`.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Creates them, empty. What is there already stays.
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

/// Removes what was made so far. From memory, because on a full disk the record cannot say it; and the record goes too,
/// because what stands there as a mere intent would make a stranger's directory look like ours.
fn take_back(entries: &[Entry], record: &Path) {
    for entry in entries.iter().filter(|entry| entry.identity.is_some()) {
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

/// Makes it appear with its content: git would not go on at an empty one.
fn create_common_dir(parent: &Directory, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let unfinished = format!(".caretaker-{}", std::process::id());
    // Of one who died over it.
    rustix::fs::unlinkat(parent.fd(), &*unfinished, AtFlags::empty()).ok();
    let mode = Mode::from_raw_mode(COMMON_DIR_MODE);
    let fd = rustix::fs::openat(parent.fd(), &*unfinished, flags, mode)?;
    let made = File::from(fd).write_all(OWN_COMMON_DIR).and_then(|()| {
        // Unlike a renaming, this never replaces what appeared meanwhile.
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
        // The workspace itself is gone, or is no longer reached without a symlink.
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
                // The user may have a mask.
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

/// Writes the record whole: `<device> <inode> <path>` and a NUL for each, zeros for an identity that is not known yet.
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

/// Reads the record; what is not an entry is passed over, since removing less is the safe side.
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
