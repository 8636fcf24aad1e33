//! Where a session is made before it has its name: a hidden directory beside the others, gone when it is not needed.
//!
//! `<chats>/.caretaker-XXXXXX/staged/session` is a level too deep to be taken for a chat or an ACP session by anybody.

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

/// A directory for a session that is being made. Whatever is in it goes with it.
#[derive(Debug)]
pub(super) struct Staging {
    directory: TempDir,
    /// Tells those who look that somebody is at it.
    _lock: File,
}

/// A staging directory whose maker was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    pub path: PathBuf,
    pub n_bytes: u64,
}

impl Staging {
    /// Makes one in the directory that holds buckets, or ACP sessions.
    pub(super) fn inside(root: &Path) -> io::Result<Self> {
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

    /// The session that is made here.
    pub(super) fn session(&self) -> PathBuf {
        self.directory.path().join(STAGED).join("session")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.session().join("store.db")
    }

    /// A place for a store that is needed only while the session is made.
    pub(super) fn scratch(&self) -> PathBuf {
        self.directory.path().join("scratch.db")
    }

    pub(super) fn write_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.session().join(name))?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Gives the session its name, unless there is something of that name already.
    pub(super) fn place(self, target: &Path) -> io::Result<()> {
        let bucket = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
        make_private(bucket)?;
        sync_directory(&self.session())?;
        rename_to_new(&self.session(), target)?;
        sync_directory(bucket)?;
        bucket.parent().map_or(Ok(()), sync_directory)
    }

    /// Puts the session in the place of another, in one step where the file system can do that. What was there is here
    /// then, until this is dropped or it is exchanged back.
    pub(super) fn exchange(&self, target: &Path) -> io::Result<()> {
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

/// Says which staging directories nobody works in any more.
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
        // Its maker may be about to make it.
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
        // A file system without it refuses to replace all but an empty directory, which nobody misses.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_placed_is_there_whole_and_nothing_else_is() {
        let chats = tempfile::tempdir().unwrap();
        let staging = Staging::inside(chats.path()).unwrap();
        staging.write_file("meta.json", b"{}").unwrap();
        let target = chats.path().join("bucket/session");
        staging.place(&target).unwrap();
        assert_eq!(names(chats.path()), ["bucket"]);
        assert_eq!(names(&target), ["meta.json"]);
    }

    #[test]
    fn nothing_that_is_there_is_replaced_by_something_new() {
        let chats = tempfile::tempdir().unwrap();
        let target = chats.path().join("bucket/session");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("store.db"), "old").unwrap();
        let staging = Staging::inside(chats.path()).unwrap();
        staging.write_file("store.db", b"new").unwrap();
        staging.place(&target).unwrap_err();
        assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "old");
        assert_eq!(names(chats.path()), ["bucket"]);
    }

    #[test]
    fn two_sessions_change_places_and_back() {
        let chats = tempfile::tempdir().unwrap();
        let target = chats.path().join("bucket/session");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("store.db"), "old").unwrap();
        let staging = Staging::inside(chats.path()).unwrap();
        staging.write_file("store.db", b"new").unwrap();
        staging.exchange(&target).unwrap();
        assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "new");
        assert_eq!(fs::read_to_string(staging.database()).unwrap(), "old");
        staging.exchange(&target).unwrap();
        assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "old");
    }

    #[test]
    fn only_what_nobody_works_in_is_left_over() {
        let chats = tempfile::tempdir().unwrap();
        let staging = Staging::inside(chats.path()).unwrap();
        staging.write_file("store.db", b"12345").unwrap();
        assert_eq!(leftovers(chats.path()), []);
        // As after a kill: the files stay and the lock goes.
        let Staging { directory, _lock: lock } = staging;
        let path = directory.keep();
        drop(lock);
        assert_eq!(leftovers(chats.path()), [Leftover { path, n_bytes: 5 }]);
    }
}
