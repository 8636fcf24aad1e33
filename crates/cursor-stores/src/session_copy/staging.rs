//! A hidden directory for writing a session before it gets its name. Deleted on drop.
//!
//! `<chats>/.caretaker-XXXXXX/staged/session` is one level too deep for a reader to mistake it for a session.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::Serialize;
use tempfile::TempDir;

const PREFIX: &str = ".caretaker-";
const LOCK: &str = "lock";
const STAGED: &str = "staged";

/// A directory for an unfinished session. Dropping it deletes everything in it.
#[derive(Debug)]
pub(crate) struct Staging {
    directory: TempDir,
    /// Held while this process is working in the directory.
    _lock: File,
}

/// A staging directory whose process was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    pub path: PathBuf,
    pub n_bytes: u64,
}

impl Staging {
    /// Creates a staging directory in the directory of all buckets, or of ACP sessions.
    pub(crate) fn inside(root: &Path) -> io::Result<Self> {
        make_private(root)?;
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)?;
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(directory.path().join(LOCK))?;
        lock.lock()?;
        make_private(&directory.path().join(STAGED).join("session"))?;
        Ok(Self { directory, _lock: lock })
    }

    /// Returns the session's directory.
    pub(crate) fn session(&self) -> PathBuf {
        self.directory.path().join(STAGED).join("session")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.session().join("store.db")
    }

    /// Returns a path for a temporary store.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.directory.path().join("scratch.db")
    }

    pub(crate) fn write_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.session().join(name))?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Gives the session its name. Fails if the name is taken.
    pub(crate) fn place(self, target: &Path) -> io::Result<()> {
        let bucket = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
        make_private(bucket)?;
        sync_directory(&self.session())?;
        rename_to_new(&self.session(), target)?;
        sync_directory(bucket)?;
        bucket.parent().map_or(Ok(()), sync_directory)
    }

    /// Swaps the session with another, in one step if the file system supports that. Then this directory holds the
    /// other session, until the caller swaps it back or drops it.
    pub(crate) fn exchange(&self, target: &Path) -> io::Result<()> {
        sync_directory(&self.session())?;
        match renameat_with(CWD, self.session(), CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let aside = self.directory.path().join(STAGED).join("aside");
                fs::rename(target, &aside)?;
                if let Err(err) = fs::rename(self.session(), target) {
                    fs::rename(&aside, target)?;
                    return Err(err);
                }
                fs::rename(&aside, self.session())?;
            }
            Err(errno) => return Err(errno.into()),
        }
        target.parent().map_or(Ok(()), sync_directory)
    }
}

/// Finds staging directories that no process is working in.
#[must_use]
pub fn leftovers(root: &Path) -> Vec<Leftover> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<Leftover> = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
        .map(|entry| entry.path())
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()))
        .filter(|path| is_abandoned(path))
        .map(|path| Leftover { n_bytes: n_bytes_below(&path), path })
        .collect();
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    found
}

fn is_abandoned(staging: &Path) -> bool {
    match crate::plain_file::open(&staging.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        // The process may be about to create the lock.
        Err(_) => false,
    }
}

fn n_bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| {
        let metadata = fs::symlink_metadata(entry.path()).ok()?;
        Some(if metadata.is_dir() { n_bytes_below(&entry.path()) } else { metadata.len() })
    });
    sizes.sum()
}

fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // A file system without this flag still refuses to replace a directory that is not empty.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
