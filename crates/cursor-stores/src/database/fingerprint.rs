//! Tells whether a database changed, without opening it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plain_file::{self, PlainFileError};

/// Identifies the content of a database by the metadata of its file and its logs, except `-shm`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseFingerprint {
    main: FileStamp,
    wal: Option<FileStamp>,
    journal: Option<FileStamp>,
}

/// Excludes the time of the last status change: as root, SQLite sets a log's owner even when it only reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl DatabaseFingerprint {
    /// Examines the files. Fails if one of them is not a plain file, so that none can hang or mislead SQLite.
    pub fn of(path: &Path) -> Result<Self, PlainFileError> {
        let sibling = |suffix: &str| match plain_file::inspect(&with_suffix(path, suffix)) {
            Ok(metadata) => Ok(Some(FileStamp::of(&metadata))),
            Err(PlainFileError::Missing { .. }) => Ok(None),
            Err(err) => Err(err),
        };
        let main = FileStamp::of(&plain_file::inspect(path)?);
        sibling("-shm")?;
        Ok(Self { main, wal: sibling("-wal")?, journal: sibling("-journal")? })
    }

    /// True if there is a log with content. The main file alone may then be incomplete or torn.
    pub(crate) fn has_log(&self) -> bool {
        [&self.wal, &self.journal].into_iter().flatten().any(|log| log.bytes > 0)
    }

    /// True if there is a rollback journal. SQLite has to roll it back before the main file can be read.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.bytes > 0)
    }

    /// Identifies the file itself, regardless of its content.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.main.device, self.main.inode)
    }

    pub(crate) fn has_same_main(&self, other: &Self) -> bool {
        self.main == other.main
    }

    /// True if nothing changed except that the log grew.
    pub(crate) fn has_grown_from(&self, before: &Self) -> bool {
        let log = match (&before.wal, &self.wal) {
            (Some(before), Some(now)) => now.inode == before.inode && now.bytes >= before.bytes,
            (None, Some(_)) => false,
            (before, None) => before.is_none(),
        };
        log && self.has_same_main(before) && self.journal == before.journal
    }

    /// True if the main file is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.main.bytes == 0
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        self.main.bytes.saturating_add(self.wal.as_ref().map_or(0, |wal| wal.bytes))
    }
}

impl FileStamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
