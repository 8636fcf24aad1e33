//! One `store.db`, open for reading: its meta row and its blobs, all from the same moment.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched, Scanned, Standing, StoredBlob};
use super::meta::{ChatMeta, ReadChatMetaError};
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};

/// A chat's store, open for reading. Keep it only as long as needed: while its log is not empty, an open store keeps
/// the writer from shortening that log.
#[derive(Debug)]
pub struct ChatStore {
    database: ReadOnlyDatabase,
    standing: Standing,
}

/// How much a store holds, whether anything refers to it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobCounts {
    pub n_blobs: i64,
    pub n_bytes: i64,
}

/// Says why a chat's store was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenChatStoreError {
    #[error(transparent)]
    Database(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
    /// Not a chat at all, or the main file of a young store that was copied without its log.
    #[error("the database has no ordinary table `{table}` as a chat has")]
    NotAChat { table: &'static str },
}

impl OpenChatStoreError {
    /// Tells whether the store can be read as soon as another process is done with it.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Database(OpenDatabaseError::Locked))
    }
}

/// Says why the meta row was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadMetaError {
    #[error(transparent)]
    Database(#[from] ReadDatabaseError),
    #[error("the meta row is larger than {limit} bytes")]
    TooLarge { limit: i64 },
    #[error(transparent)]
    Content(#[from] ReadChatMetaError),
}

/// Says why a blob was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBlobError {
    #[error(transparent)]
    Database(#[from] ReadDatabaseError),
    #[error("the blob has {bytes} bytes, more than {limit}")]
    TooLarge { bytes: i64, limit: i64 },
}

/// An image or a long tool result has some megabytes.
pub(crate) const MAX_BLOB_BYTES: i64 = 64 * 1024 * 1024;
const MAX_META_BYTES: i64 = 16 * 1024 * 1024;
/// Half a gigabyte is counted in less than a second.
const COUNT_LIMIT: Duration = Duration::from_secs(20);

impl ChatStore {
    /// Opens `store.db` without ever writing to it, as Cursor would: damage is an error. A closed store is read as it
    /// lies there, without locks and without creating a file; one with a log is read through SQLite's locks, which may
    /// create or change `-shm`.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenChatStoreError> {
        Self::new(ReadOnlyDatabase::open_unmended(path)?)
    }

    /// As [`Self::open_read_only`], and what is left of it if it is damaged: then the first read fails as if somebody
    /// had written to it.
    pub(crate) fn open_mended(path: &Path) -> Result<Self, OpenChatStoreError> {
        Self::new(ReadOnlyDatabase::open(path)?)
    }

    fn new(database: ReadOnlyDatabase) -> Result<Self, OpenChatStoreError> {
        for (table, columns) in [("meta", ["key", "value"]), ("blobs", ["id", "data"])] {
            if !database.has_plain_table(table, columns)? {
                return Err(OpenChatStoreError::NotAChat { table });
            }
        }
        Ok(Self { database, standing: Standing::default() })
    }

    /// Returns the meta row, or `None` before it was first written.
    pub fn meta(&self) -> Result<Option<ChatMeta>, ReadMetaError> {
        // There is one row. Its index is not asked: it may be damaged where the row is not.
        let sql = "SELECT octet_length(value), CASE WHEN octet_length(value) <= ?2 THEN value END \
                   FROM meta NOT INDEXED WHERE key = ?1";
        match self.database.read_within(COUNT_LIMIT, |connection| {
            bounded_value(connection, sql, "0", MAX_META_BYTES)
        })? {
            None => Ok(None),
            Some(Value::TooLarge { .. }) => Err(ReadMetaError::TooLarge { limit: MAX_META_BYTES }),
            Some(Value::Bytes(row)) => Ok(Some(ChatMeta::from_row(&row)?)),
        }
    }

    /// Returns a blob's bytes, unchecked; [`BlobId::of`] tells whether they are what the id says.
    pub fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>, ReadBlobError> {
        let sql = "SELECT octet_length(data), CASE WHEN octet_length(data) <= ?2 THEN data END \
                   FROM blobs WHERE id = ?1";
        match self
            .database
            .read(|connection| bounded_value(connection, sql, &id.to_string(), MAX_BLOB_BYTES))?
        {
            None => Ok(None),
            Some(Value::TooLarge { bytes }) => {
                Err(ReadBlobError::TooLarge { bytes, limit: MAX_BLOB_BYTES })
            }
            Some(Value::Bytes(data)) => Ok(Some(data)),
        }
    }

    /// As [`Self::blob`], and tells what is lost from what never was there.
    pub(crate) fn fetch(&self, id: BlobId) -> Result<Fetched, ReadDatabaseError> {
        self.at_once(|blobs| blobs.get(id))
    }

    /// Calls `visit` with the id of every blob, in the order of their last writing, until told to stop. Rows whose id
    /// is not one are passed over.
    pub fn visit_blob_ids(
        &self,
        mut visit: impl FnMut(BlobId) -> ControlFlow<()>,
    ) -> Result<(), ReadDatabaseError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id FROM blobs WHERE octet_length(id) = 64 ORDER BY rowid",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str().ok().and_then(|text| text.parse().ok());
                if id.is_some_and(|id| visit(id).is_break()) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Counts everything, for no longer than some seconds: a crafted file may have any number of rows.
    pub fn counts(&self) -> Result<BlobCounts, ReadDatabaseError> {
        self.database.read_within(COUNT_LIMIT, |connection| {
            let sql = "SELECT count(*), coalesce(sum(octet_length(data)), 0) FROM blobs";
            connection.query_row(sql, [], |row| {
                Ok(BlobCounts { n_blobs: row.get(0)?, n_bytes: row.get(1)? })
            })
        })
    }

    /// Everything that is there, in the order of its last writing. No data is read.
    pub(crate) fn inventory(&self) -> Result<(Vec<StoredBlob>, Scanned), ReadDatabaseError> {
        let read = |connection: &Connection| {
            Blobs::new(&self.database, connection, &self.standing).inventory()
        };
        self.database.read(read)
    }

    /// Looks over the structure of the file. Says the first thing that is wrong with it, if something is.
    pub(crate) fn structural_damage(&self) -> Result<Option<String>, ReadDatabaseError> {
        let found = self.database.read(|connection| {
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        });
        match found {
            Ok(verdict) if verdict == "ok" => Ok(None),
            Ok(verdict) => Ok(Some(verdict)),
            Err(err) if err.is_damage() => Ok(Some("its pages do not hold together".to_owned())),
            Err(err) => Err(err),
        }
    }

    /// Reads many blobs as one read. What `read` returns is from one moment, or an error says that it is not.
    pub(crate) fn at_once<T>(
        &self,
        read: impl FnOnce(&Blobs<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.database
            .read(|connection| read(&Blobs::new(&self.database, connection, &self.standing)))
    }

    /// Tells whether this is what is left of a damaged store.
    pub(crate) fn is_in_part(&self) -> bool {
        self.database.is_in_part()
    }

    /// Says what is missing because the log cannot be read, if it cannot.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        self.database.missing_log()
    }

    /// Says what is missing from all that is read here, be it the log or a part of the file.
    pub(crate) fn loss(&self) -> Option<&'static str> {
        self.database.shortcoming()
    }
}

enum Value {
    Bytes(Vec<u8>),
    TooLarge { bytes: i64 },
}

/// Reads one value of text or bytes, whose length is asked for before it is loaded. No row and no value are the same.
fn bounded_value(
    connection: &Connection,
    sql: &str,
    key: &str,
    limit: i64,
) -> rusqlite::Result<Option<Value>> {
    let read = |row: &Row<'_>| {
        let bytes: Option<i64> = row.get(0)?;
        Ok(match (bytes, row.get_ref(1)?) {
            (_, ValueRef::Text(value) | ValueRef::Blob(value)) => {
                Some(Value::Bytes(value.to_vec()))
            }
            (Some(bytes), ValueRef::Null) => Some(Value::TooLarge { bytes }),
            (_, ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_)) => None,
        })
    };
    Ok(connection.prepare_cached(sql)?.query_row((key, limit), read).optional()?.flatten())
}

#[cfg(test)]
#[path = "chat_store_tests.rs"]
mod tests;
