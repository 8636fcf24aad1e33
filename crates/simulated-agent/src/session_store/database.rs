//! The SQLite file itself: two tables, and single statements that commit on their own, because Cursor uses no transactions.

use std::path::Path;

use cursor_stores::chat::{BlobId, ChatMeta};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Result, params};

/// The only key of the meta table.
const META_KEY: &str = "0";

pub(super) struct Database {
    connection: Connection,
}

impl Database {
    /// Opens or creates the store for writing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where the simulated agent opens its own store"
        )]
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA busy_timeout = 5000;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL;
             PRAGMA user_version = 1;
             CREATE TABLE IF NOT EXISTS blobs (id TEXT PRIMARY KEY, data BLOB);
             CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);",
        )?;
        Ok(Self { connection })
    }

    /// Opens a store to look at it, for lists of sessions.
    pub(super) fn open_read_only(path: &Path) -> Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where the simulated agent opens its own store"
        )]
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.execute_batch("PRAGMA busy_timeout = 5000;")?;
        Ok(Self { connection })
    }

    /// Writes a blob under the hash of its bytes; a blob written again moves to the end of the table.
    pub(super) fn put_blob(&self, data: &[u8]) -> Result<BlobId> {
        let id = BlobId::of(data);
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, ?2)")?
            .execute(params![id.to_string(), data])?;
        Ok(id)
    }

    /// Returns a blob as it is found, whatever its hash: Cursor does not check either.
    pub(super) fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>> {
        self.connection
            .prepare_cached("SELECT data FROM blobs WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()
    }

    pub(super) fn has_blobs(&self) -> Result<bool> {
        self.connection.query_row("SELECT EXISTS (SELECT 1 FROM blobs)", [], |row| row.get(0))
    }

    pub(super) fn put_meta(&self, meta: &ChatMeta) -> Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
            .execute([META_KEY, &meta.to_hex_row()])
            .map(drop)
    }

    /// Returns the meta row; nothing if it is not there or cannot be read.
    pub(super) fn meta(&self) -> Option<ChatMeta> {
        let row: String = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [META_KEY], |row| row.get(0))
            .ok()?;
        ChatMeta::from_row(row.as_bytes()).ok()
    }

    /// Closes the file; the last one to do so folds the write-ahead log in and removes it.
    pub(super) fn close(self) -> Result<()> {
        self.connection.close().map_err(|(_, err)| err)
    }

    /// Leaves the file as a process does that exits without closing it.
    pub(super) fn close_leaving_wal(self) -> Result<()> {
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.close()
    }
}
