//! One `store.db`, open for reading. Its meta row and its blobs come from the same state.

use std::path::Path;
use std::time::Duration;

use rusqlite::OptionalExtension;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched, RowIds, Scanned, StoredBlob, fetched};
use super::meta::{ChatMeta, ReadChatMetaError};
use crate::database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};

/// A chat's store, open for reading. Drop it soon: while the log is not empty, an open store keeps the writer from
/// shortening the log.
#[derive(Debug)]
pub struct ChatStore {
    database: ReadOnlyDatabase,
    row_ids: RowIds,
}

/// Says why a chat's store or its meta row could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatStoreError {
    #[error(transparent)]
    Database(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
    /// Not a chat, or the main file of a new store without its log.
    #[error("the database has no table `{table}`, which every chat has")]
    NotAChat { table: &'static str },
    #[error("the meta row is larger than {limit} bytes")]
    MetaTooLarge { limit: i64 },
    #[error(transparent)]
    Meta(#[from] ReadChatMetaError),
}

impl ChatStoreError {
    /// True if the store becomes readable as soon as another process releases it.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Database(OpenDatabaseError::Locked))
    }

    /// True if a writer changed the store while it was being read, so that another attempt may succeed.
    pub(crate) fn is_change(&self) -> bool {
        matches!(self, Self::Read(ReadDatabaseError::Changed))
    }
}

/// An image or a long tool result takes up a few megabytes.
pub(crate) const MAX_BLOB_BYTES: i64 = 64 * 1024 * 1024;
const MAX_META_BYTES: i64 = 16 * 1024 * 1024;
/// A crafted file may have any number of rows.
const TIME_LIMIT: Duration = Duration::from_secs(20);

impl ChatStore {
    /// Opens `store.db` without ever writing to it, as Cursor would: damage is an error. A closed store is read
    /// without locks, and no file is created. A store with a log is read through SQLite's locks, which may create or
    /// change `-shm`.
    pub fn open_read_only(path: &Path) -> Result<Self, ChatStoreError> {
        Self::new(ReadOnlyDatabase::open_strictly(path)?)
    }

    /// Like [`Self::open_read_only`], but reads a damaged store as far as possible. The first read of a damaged store
    /// fails with `Changed`; the next attempt reads the salvaged copy.
    pub(crate) fn open_salvaged(path: &Path) -> Result<Self, ChatStoreError> {
        Self::new(ReadOnlyDatabase::open(path)?)
    }

    fn new(database: ReadOnlyDatabase) -> Result<Self, ChatStoreError> {
        for (table, columns) in [("meta", ["key", "value"]), ("blobs", ["id", "data"])] {
            if !database.has_plain_table(table, columns)? {
                return Err(ChatStoreError::NotAChat { table });
            }
        }
        Ok(Self { database, row_ids: RowIds::default() })
    }

    /// Returns the meta row, or `None` before Cursor writes it.
    pub fn meta(&self) -> Result<Option<ChatMeta>, ChatStoreError> {
        // There is only one row. Avoid the index, which may be damaged even if the row is intact.
        let sql = "SELECT octet_length(value), CASE WHEN octet_length(value) <= ?2 THEN value END \
                   FROM meta NOT INDEXED WHERE key = ?1";
        let row = self.database.read_within(TIME_LIMIT, |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row(("0", MAX_META_BYTES), fetched).optional()
        })?;
        match row {
            Some(Fetched::Data(row)) => Ok(Some(ChatMeta::from_row(&row)?)),
            Some(Fetched::TooLarge { .. }) => {
                Err(ChatStoreError::MetaTooLarge { limit: MAX_META_BYTES })
            }
            Some(Fetched::Missing | Fetched::Unreadable) | None => Ok(None),
        }
    }

    /// Reads a blob by the index alone, as Cursor does. The bytes are unchecked. `None` if the blob is missing or too large.
    pub fn blob(&self, id: BlobId) -> Result<Option<Vec<u8>>, ReadDatabaseError> {
        Ok(self.by_index(id)?.data())
    }

    /// Like [`Self::blob`], but says why there is no data.
    pub(crate) fn by_index(&self, id: BlobId) -> Result<Fetched, ReadDatabaseError> {
        self.at_once(|blobs| blobs.by_index(id))
    }

    /// Like [`Self::blob`], but tells a lost blob from one that never existed.
    pub(crate) fn fetch(&self, id: BlobId) -> Result<Fetched, ReadDatabaseError> {
        self.at_once(|blobs| blobs.get(id))
    }

    /// Lists all blobs, ordered by last write. Reads no data.
    pub(crate) fn inventory(&self) -> Result<(Vec<StoredBlob>, Scanned), ReadDatabaseError> {
        self.database
            .read(|connection| Blobs::new(&self.database, connection, &self.row_ids).inventory())
    }

    /// Checks the structure of the file. Returns the first problem.
    pub(crate) fn structural_damage(&self) -> Result<Option<String>, ReadDatabaseError> {
        let found = self.database.read(|connection| {
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        });
        match found {
            Ok(verdict) if verdict == "ok" => Ok(None),
            Ok(verdict) => Ok(Some(verdict)),
            Err(err) if err.is_damage() => Ok(Some("its pages are inconsistent".to_owned())),
            Err(err) => Err(err),
        }
    }

    /// Reads many blobs in one read. Fails if they would not all come from the same state.
    pub(crate) fn at_once<T>(
        &self,
        read: impl FnOnce(&Blobs<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.database
            .read(|connection| read(&Blobs::new(&self.database, connection, &self.row_ids)))
    }

    /// True for a damaged store, which is read as far as possible.
    pub(crate) fn is_salvaged(&self) -> bool {
        self.database.is_salvaged()
    }

    /// Says that the newest part is missing, if the log cannot be read.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        self.database.missing_log()
    }

    /// Says which part is missing from the log or from the file.
    pub(crate) fn loss(&self) -> Option<&'static str> {
        self.database.shortcoming()
    }
}

#[cfg(test)]
#[path = "chat_store_tests.rs"]
mod tests;
