//! Writes a new store, in Cursor's format.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::{CopyError, WriteStoreError};
use crate::chat::store::{PUT_BLOB, PUT_META, open};
use crate::chat::{BlobId, ChatMeta};

/// A new store that is being filled. It is not valid before [`Self::finish`].
#[derive(Debug)]
pub(crate) struct StoreWriter {
    connection: Connection,
    path: PathBuf,
}

impl StoreWriter {
    /// Creates a file with the tables that Cursor makes. Fails if the file exists.
    pub(crate) fn create(path: &Path) -> Result<Self, CopyError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| WriteStoreError::File { path: path.to_owned(), source })?;
        let connection = open(path)?;
        // No other process sees the file before it is complete and synced, so it needs no log.
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA user_version = 1;
             BEGIN;
             CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB);
             CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);",
        )?;
        Ok(Self { connection, path: path.to_owned() })
    }

    pub(crate) fn put(&mut self, id: BlobId, data: &[u8]) -> Result<(), CopyError> {
        self.connection.prepare_cached(PUT_BLOB)?.execute((id.to_string(), data))?;
        Ok(())
    }

    /// Writes the meta row, and syncs the file to disk.
    pub(crate) fn finish(self, meta: &ChatMeta) -> Result<(), CopyError> {
        let Self { connection, path } = self;
        connection.execute(PUT_META, [meta.to_hex_row()])?;
        connection.execute_batch("COMMIT; PRAGMA journal_mode = WAL;")?;
        connection.close().map_err(|(_, err)| err)?;
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|source| WriteStoreError::File { path, source }.into())
    }
}
