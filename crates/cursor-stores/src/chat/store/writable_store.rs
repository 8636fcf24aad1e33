//! A `store.db` as its owner writes it: for the simulated agent and for fixtures, which act as Cursor.
//!
//! Every statement commits on its own, because Cursor uses no transactions. No Caretaker command writes through this:
//! commands use the stricter `transaction`.

use std::ops::Deref;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Result, ToSql};

use crate::chat::{BlobId, ChatMeta};

pub struct WritableStore {
    connection: Connection,
}

impl WritableStore {
    /// Opens a store with Cursor's settings; creates the file and its tables if they are missing.
    #[expect(clippy::disallowed_methods, reason = "acts as Cursor, which writes")]
    pub fn open(path: &Path) -> Result<Self> {
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

    /// Writes a blob under the hash of its bytes. A blob that is written again moves to the end of the table.
    pub fn put(&self, data: &[u8]) -> Result<BlobId> {
        let id = BlobId::of(data);
        self.put_as(&id.to_string(), data)?;
        Ok(id)
    }

    /// Writes a blob under any id.
    pub fn put_as(&self, id: &str, data: &[u8]) -> Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, ?2)")?
            .execute((id, data))
            .map(drop)
    }

    /// Writes the meta row; Cursor writes [`ChatMeta::to_hex_row`].
    pub fn put_meta(&self, row: impl ToSql) -> Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('0', ?1)")?
            .execute([row])
            .map(drop)
    }

    /// Reads a blob without checking its hash. Cursor does not check it either.
    pub fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>> {
        self.connection
            .prepare_cached("SELECT data FROM blobs WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()
    }

    /// Reads the meta row; `None` if it is missing or unreadable.
    #[must_use]
    pub fn meta(&self) -> Option<ChatMeta> {
        let sql = "SELECT value FROM meta WHERE key = '0'";
        let row: String = self.connection.query_row(sql, [], |row| row.get(0)).ok()?;
        ChatMeta::from_row(row.as_bytes()).ok()
    }

    pub fn has_blobs(&self) -> Result<bool> {
        self.connection.query_row("SELECT EXISTS (SELECT 1 FROM blobs)", [], |row| row.get(0))
    }

    /// Closes the file. The last process to do so merges the write-ahead log into it.
    pub fn close(self) -> Result<()> {
        self.connection.close().map_err(|(_, err)| err)
    }

    /// Leaves `-wal` and `-shm` behind, like a process that exits without closing the file.
    pub fn close_leaving_wal(self) -> Result<()> {
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.close()
    }
}

/// For statements that have no method here.
impl Deref for WritableStore {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
