//! A copy of a database and its log. Needed if SQLite cannot create the log's index next to the original.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::database::OpenDatabaseError;
use crate::database::again::ATTEMPTS;
use crate::database::{DatabaseFingerprint, with_suffix};
use crate::plain_file::{self, PlainFileError};

/// The most bytes to copy.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// A copy in its own temporary directory, deleted on drop.
#[derive(Debug)]
pub(crate) struct DatabaseCopy {
    path: PathBuf,
    _directory: TempDir,
}

impl DatabaseCopy {
    /// Copies a database with its log. `None` if they are too large, or if SQLite would have to write the log back.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, OpenDatabaseError> {
        for _ in 0..ATTEMPTS {
            let before = DatabaseFingerprint::of(path)?;
            if before.n_bytes() > MAX_BYTES || before.has_journal() {
                return Ok(None);
            }
            let directory = tempfile::tempdir().map_err(|source| failed(path, source))?;
            let copy = Self { path: directory.path().join("copy.db"), _directory: directory };
            for suffix in ["", "-wal"] {
                copy.take(path, suffix)?;
            }
            if DatabaseFingerprint::of(path)? == before {
                return Ok(Some(copy));
            }
        }
        Err(OpenDatabaseError::Changing)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn take(&self, path: &Path, suffix: &str) -> Result<(), OpenDatabaseError> {
        let from = with_suffix(path, suffix);
        let mut source = match plain_file::open(&from) {
            Ok(source) => source,
            Err(PlainFileError::Missing { .. }) if !suffix.is_empty() => return Ok(()),
            Err(err) => return Err(err.into()),
        };
        File::create(with_suffix(&self.path, suffix))
            .and_then(|mut target| io::copy(&mut source, &mut target))
            .map_err(|source| failed(&from, source))?;
        Ok(())
    }
}

fn failed(path: &Path, source: io::Error) -> OpenDatabaseError {
    PlainFileError::Read { path: path.to_owned(), source }.into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::chat::ChatStore;
    use crate::test_store::{TestStore, picture_of};

    #[test]
    fn a_copy_includes_the_log_and_leaves_the_original_unchanged() {
        let store = TestStore::new();
        store.put_meta();
        let killed = store.as_killed();
        let before = picture_of(killed.directory.path());
        let copy = DatabaseCopy::of(&killed.path()).unwrap().unwrap();
        let meta = ChatStore::open_read_only(copy.path()).unwrap().meta().unwrap().unwrap();
        assert_eq!(meta.agent_id(), store.meta.agent_id());
        assert_eq!(picture_of(killed.directory.path()), before);
        let path = copy.path().to_owned();
        drop(copy);
        assert!(!path.exists());
    }

    #[test]
    fn a_database_that_is_too_large_is_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(DatabaseCopy::of(&path).unwrap().is_none());
    }
}
