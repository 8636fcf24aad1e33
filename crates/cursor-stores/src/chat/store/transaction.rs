//! The only place where Caretaker opens one of Cursor's stores for writing.
//!
//! The agent can write the file, so the transaction trusts nothing in it: no trigger fires, no view is read, and no
//! statement exceeds its time limit.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::blob_id::BlobId;
use super::meta::ChatMeta;

/// Cursor itself waits this long for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// SQLite checks the time limit after this many steps.
const STEPS_BETWEEN_CHECKS: i32 = 10_000;
pub(crate) const PUT_BLOB: &str = "INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, ?2)";
pub(crate) const PUT_META: &str = "INSERT OR REPLACE INTO meta (key, value) VALUES ('0', ?1)";

/// A store inside one transaction, which is rolled back unless it is committed.
#[derive(Debug)]
pub(crate) struct StoreTransaction {
    connection: Connection,
}

impl StoreTransaction {
    /// Begins to write to an existing store. No other process can write to it meanwhile.
    pub(crate) fn begin(path: &Path, time_limit: Option<Duration>) -> rusqlite::Result<Self> {
        let mut connection = open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        if let Some(deadline) = time_limit.map(|limit| Instant::now() + limit) {
            let is_over = move || Instant::now() >= deadline;
            connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(is_over))?;
        }
        connection.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL;
             BEGIN IMMEDIATE",
        )?;
        Ok(Self { connection })
    }

    pub(crate) fn has_blob(&self, id: BlobId) -> rusqlite::Result<bool> {
        self.connection.prepare("SELECT 1 FROM blobs WHERE id = ?1")?.exists([id.to_string()])
    }

    /// The meta row. No other process can change it before the end of the transaction.
    pub(crate) fn meta_row(&self) -> rusqlite::Result<Option<Vec<u8>>> {
        let sql = "SELECT CAST(value AS BLOB) FROM meta NOT INDEXED WHERE key = '0'";
        self.connection.query_row(sql, [], |row| row.get(0)).optional()
    }

    pub(crate) fn put(&self, id: BlobId, data: &[u8]) -> rusqlite::Result<()> {
        self.connection.prepare_cached(PUT_BLOB)?.execute((id.to_string(), data)).map(drop)
    }

    pub(crate) fn put_meta(&self, meta: &ChatMeta) -> rusqlite::Result<()> {
        self.connection.execute(PUT_META, [meta.to_hex_row()]).map(drop)
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        self.connection.execute_batch("COMMIT")?;
        self.connection.close().map_err(|(_, err)| err)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place in this crate that opens a store for writing, on an explicit command"
)]
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(path, flags)
}
