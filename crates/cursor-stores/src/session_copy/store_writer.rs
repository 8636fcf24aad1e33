//! The one place that opens stores for writing: new ones that nobody knows yet, and an old one for a single transaction.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::chat::{BlobId, ChatMeta};

/// A new store that is being filled. It is worth nothing until it is finished.
#[derive(Debug)]
pub(super) struct StoreWriter {
    connection: Connection,
    path: PathBuf,
}

/// Says why a store was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteStoreError {
    #[error("`{}` cannot be written", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the database cannot be written")]
    Sqlite(#[from] rusqlite::Error),
}

/// As long as Cursor itself waits for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const PUT_BLOB: &str = "INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, ?2)";
const PUT_META: &str = "INSERT OR REPLACE INTO meta (key, value) VALUES ('0', ?1)";

impl StoreWriter {
    /// Makes a store where there is no file yet, with the tables that Cursor makes.
    pub(super) fn create(path: &Path) -> Result<Self, WriteStoreError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| WriteStoreError::File { path: path.to_owned(), source })?;
        let connection = open(path)?;
        // Nobody sees the file before it is whole and synced, so that it needs no log of its own.
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA user_version = 1;
             BEGIN;
             CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB);
             CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);",
        )?;
        Ok(Self { connection, path: path.to_owned() })
    }

    pub(super) fn put(&mut self, id: BlobId, data: &[u8]) -> Result<(), WriteStoreError> {
        self.connection.prepare_cached(PUT_BLOB)?.execute((id.to_string(), data))?;
        Ok(())
    }

    /// Writes the meta row, and everything to the disk.
    pub(super) fn finish(self, meta: &ChatMeta) -> Result<(), WriteStoreError> {
        let Self { connection, path } = self;
        connection.execute(PUT_META, [meta.to_hex_row()])?;
        connection.execute_batch("COMMIT; PRAGMA journal_mode = WAL;")?;
        connection.close().map_err(|(_, err)| err)?;
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|source| WriteStoreError::File { path, source })
    }
}

/// A store of Cursor's inside one transaction, which is taken back unless it is committed.
#[derive(Debug)]
pub(super) struct StoreTransaction {
    connection: Connection,
}

impl StoreTransaction {
    /// Begins to write to a store that is there, to the exclusion of all other writers.
    pub(super) fn begin(path: &Path) -> Result<Self, WriteStoreError> {
        let connection = open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // What a hostile file would have done on each row is not done.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL;
             BEGIN IMMEDIATE",
        )?;
        Ok(Self { connection })
    }

    /// The meta row as it stands now, which nobody else can change before the end.
    pub(super) fn meta_row(&self) -> Result<Vec<u8>, WriteStoreError> {
        let sql = "SELECT CAST(value AS BLOB) FROM meta NOT INDEXED WHERE key = '0'";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    pub(super) fn put(&self, id: BlobId, data: &[u8]) -> Result<(), WriteStoreError> {
        self.connection.prepare_cached(PUT_BLOB)?.execute((id.to_string(), data))?;
        Ok(())
    }

    pub(super) fn put_meta(&self, meta: &ChatMeta) -> Result<(), WriteStoreError> {
        self.connection.execute(PUT_META, [meta.to_hex_row()])?;
        Ok(())
    }

    pub(super) fn commit(self) -> Result<(), WriteStoreError> {
        self.connection.execute_batch("COMMIT")?;
        self.connection.close().map_err(|(_, err)| err)?;
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that writes to a store of Cursor's, on an explicit command"
)]
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(path, flags)
}
