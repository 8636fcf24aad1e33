//! Putting a mended or smaller copy of a session in the place of the original.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::is_open_for_writing;
use super::staging::Staging;
use crate::database_fingerprint::DatabaseFingerprint;
use crate::plain_file::{self, PlainFileError};

/// A session that is going to be replaced by a copy of itself.
#[derive(Debug)]
pub(super) struct Replacement {
    directory: PathBuf,
    pub(super) staging: Staging,
    before: DatabaseFingerprint,
}

/// Says why a session was not replaced. It is as it was then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    #[error("another process has the session open for writing")]
    InUse,
    #[error("the session changed meanwhile")]
    Changed,
    #[error("the session's store is not a file that can be replaced")]
    Store(#[source] PlainFileError),
    /// Nothing of Cursor's, so that we do not know what becomes of it.
    #[error("`{}` is something that no session has", .path.display())]
    Unexpected { path: PathBuf },
    #[error("the copy cannot be made beside the session")]
    Stage(#[source] io::Error),
    #[error("the copy cannot be put into the session's place")]
    Exchange(#[source] io::Error),
}

/// The files of the database itself, which the copy has in its own form.
const DATABASE_FILES: [&str; 4] = ["store.db", "store.db-wal", "store.db-shm", "store.db-journal"];

impl Replacement {
    /// Begins a copy of the session in `directory`, with everything that lies beside the store. Refuses if somebody
    /// writes to it.
    pub(super) fn begin(directory: &Path, root: &Path) -> Result<Self, ReplaceError> {
        let database = directory.join("store.db");
        let before = DatabaseFingerprint::of(&database).map_err(ReplaceError::Store)?;
        if is_open_for_writing(&database) {
            return Err(ReplaceError::InUse);
        }
        let staging = Staging::inside(root).map_err(ReplaceError::Stage)?;
        for path in files_beside(directory)? {
            let name = path.file_name().unwrap_or_default();
            let to = staging.session().join(name);
            fs::hard_link(&path, &to)
                .or_else(|_| fs::copy(&path, &to).map(drop))
                .map_err(ReplaceError::Stage)?;
        }
        Ok(Self { directory: directory.to_owned(), staging, before })
    }

    /// Keeps the files of the original elsewhere.
    pub(super) fn back_up(&self, backup: &Path) -> io::Result<()> {
        super::staging::make_private(backup)?;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // The index of the log belongs to readers and is made anew.
            if entry.file_name() == "store.db-shm" {
                continue;
            }
            let to = backup.join(entry.file_name());
            fs::copy(entry.path(), &to)?;
            fs::File::open(&to)?.sync_all()?;
        }
        super::staging::sync_directory(backup)
    }

    /// Exchanges the two. One who opened the original in the last moment keeps it, and the copy is given up.
    pub(super) fn finish(self) -> Result<(), ReplaceError> {
        let database = self.directory.join("store.db");
        let is_same =
            |path: &Path| DatabaseFingerprint::of(path).is_ok_and(|now| now == self.before);
        if !is_same(&database) {
            return Err(ReplaceError::Changed);
        }
        if is_open_for_writing(&database) {
            return Err(ReplaceError::InUse);
        }
        self.staging.exchange(&self.directory).map_err(ReplaceError::Exchange)?;
        let original = self.staging.database();
        let is_changed = !is_same(&original);
        if is_changed || is_open_for_writing(&original) {
            self.staging.exchange(&self.directory).map_err(ReplaceError::Exchange)?;
            return Err(if is_changed { ReplaceError::Changed } else { ReplaceError::InUse });
        }
        Ok(())
    }
}

/// The plain files of a session that are not its database.
fn files_beside(directory: &Path) -> Result<Vec<PathBuf>, ReplaceError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(ReplaceError::Stage)? {
        let path = entry.map_err(ReplaceError::Stage)?.path();
        if DATABASE_FILES.iter().any(|name| path.file_name().is_some_and(|file| file == *name)) {
            continue;
        }
        if plain_file::inspect(&path).is_err() {
            return Err(ReplaceError::Unexpected { path });
        }
        files.push(path);
    }
    Ok(files)
}
