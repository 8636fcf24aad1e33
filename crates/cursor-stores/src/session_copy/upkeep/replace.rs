//! Replaces a session with its repaired or smaller copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::chat::{BlobId, ChatMeta};
use crate::database::DatabaseFingerprint;
use crate::plain_file;
use crate::session_copy::error::CopyError;
use crate::session_copy::is_open_for_writing;
use crate::session_copy::source::Source;
use crate::session_copy::staging::{Staging, make_private, sync_directory};
use crate::session_copy::store_writer::StoreWriter;

/// A session that a copy of itself will replace.
#[derive(Debug)]
pub(crate) struct Replacement {
    directory: PathBuf,
    pub(crate) staging: Staging,
    before: DatabaseFingerprint,
}

/// The files of the database. The copy has its own.
const DATABASE_FILES: [&str; 4] = ["store.db", "store.db-wal", "store.db-shm", "store.db-journal"];

impl Replacement {
    /// Begins a copy of the session in `directory`, with all files next to the store. Fails if a process writes to the
    /// store.
    pub(crate) fn begin(directory: &Path, root: &Path) -> Result<Self, CopyError> {
        let database = directory.join("store.db");
        let before = DatabaseFingerprint::of(&database).map_err(CopyError::NotReplaceable)?;
        if is_open_for_writing(&database) {
            return Err(CopyError::InUse);
        }
        let staging = Staging::inside(root).map_err(CopyError::Stage)?;
        for path in files_beside(directory)? {
            let name = path.file_name().unwrap_or_default();
            let to = staging.session().join(name);
            fs::hard_link(&path, &to)
                .or_else(|_| fs::copy(&path, &to).map(drop))
                .map_err(CopyError::Stage)?;
        }
        Ok(Self { directory: directory.to_owned(), staging, before })
    }

    /// Writes the copy's store.
    pub(crate) fn write(
        &self,
        source: &Source,
        is_wanted: impl Fn(&BlobId) -> bool,
        meta: &ChatMeta,
    ) -> Result<(), CopyError> {
        let path = self.staging.database();
        // An earlier attempt may have left a file.
        fs::remove_file(&path).ok();
        let mut writer = StoreWriter::create(&path)?;
        source.visit(is_wanted, |id, data| writer.put(id, data))?;
        writer.finish(meta)
    }

    /// Keeps the original files in `backup`.
    pub(crate) fn back_up(&self, backup: &Path) -> Result<(), CopyError> {
        self.copy_files(backup)
            .map_err(|source| CopyError::BackUp { path: backup.to_owned(), source })
    }

    fn copy_files(&self, backup: &Path) -> io::Result<()> {
        make_private(backup)?;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Readers recreate the log's index themselves.
            if entry.file_name() == "store.db-shm" {
                continue;
            }
            let to = backup.join(entry.file_name());
            fs::copy(entry.path(), &to)?;
            fs::File::open(&to)?.sync_all()?;
        }
        sync_directory(backup)
    }

    /// Swaps the original and the copy. If a process opened the original at the last moment, swaps them back.
    pub(crate) fn finish(self) -> Result<(), CopyError> {
        let database = self.directory.join("store.db");
        let is_same =
            |path: &Path| DatabaseFingerprint::of(path).is_ok_and(|now| now == self.before);
        if !is_same(&database) {
            return Err(CopyError::Changed);
        }
        if is_open_for_writing(&database) {
            return Err(CopyError::InUse);
        }
        self.staging.exchange(&self.directory).map_err(CopyError::Exchange)?;
        let original = self.staging.database();
        let is_changed = !is_same(&original);
        if is_changed || is_open_for_writing(&original) {
            self.staging.exchange(&self.directory).map_err(CopyError::Exchange)?;
            return Err(if is_changed { CopyError::Changed } else { CopyError::InUse });
        }
        Ok(())
    }
}

/// Returns the session's plain files, except its database.
fn files_beside(directory: &Path) -> Result<Vec<PathBuf>, CopyError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(CopyError::Stage)? {
        let path = entry.map_err(CopyError::Stage)?.path();
        if DATABASE_FILES.iter().any(|name| path.file_name().is_some_and(|file| file == *name)) {
            continue;
        }
        if plain_file::inspect(&path).is_err() {
            return Err(CopyError::Unexpected { path });
        }
        files.push(path);
    }
    Ok(files)
}
