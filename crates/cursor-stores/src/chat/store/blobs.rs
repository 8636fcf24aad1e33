//! The blobs of one store, all from one read.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use prost::Message;
use rusqlite::blob::Blob;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::blob_id::BlobId;
use super::chat_store::MAX_BLOB_BYTES;
use crate::chat::schema::ConversationStateStructure;
use crate::database::salvage::Loss;
use crate::database::{ReadOnlyDatabase, contradiction, is_damage};

/// The blobs of a store, valid during one read.
pub(crate) struct Blobs<'c> {
    database: &'c ReadOnlyDatabase,
    connection: &'c Connection,
    row_ids: &'c RowIds,
    handle: RefCell<Option<Blob<'c>>>,
}

/// The rows of the table, regardless of the index. Filled when the first blob is missing, and kept while the store is
/// open, because filling it reads every row.
#[derive(Debug, Default)]
pub(crate) struct RowIds {
    ids: OnceCell<HashSet<BlobId>>,
    /// Rows of a damaged store whose content does not match the row's id.
    misnamed: OnceCell<HashMap<BlobId, i64>>,
}

/// Rows by number, after `after` and up to `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    after: i64,
    until: i64,
}

impl Rows {
    pub(crate) const ALL: Self = Self { after: i64::MIN, until: i64::MAX };
}

/// How much of the store a scan saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scanned {
    Whole,
    /// A damaged store, as far as it is readable.
    InPart,
}

/// Called with the number of a row, its id if it is valid, and another column.
type VisitRow<'v> = dyn FnMut(i64, Option<BlobId>, ValueRef<'_>) -> ControlFlow<()> + 'v;

/// The content stored under an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Unchecked bytes. [`Self::intact`] compares their hash with the id.
    Data(Vec<u8>),
    Missing,
    TooLarge {
        bytes: i64,
    },
    /// In a damaged part of the file.
    Unreadable,
}

impl Fetched {
    pub(crate) fn data(self) -> Option<Vec<u8>> {
        match self {
            Self::Data(data) => Some(data),
            Self::Missing | Self::TooLarge { .. } | Self::Unreadable => None,
        }
    }

    /// Returns the bytes if their hash is `id`.
    pub(crate) fn intact(self, id: BlobId) -> Option<Vec<u8>> {
        self.data().filter(|data| BlobId::of(data) == id)
    }

    /// Decodes the state in a root whose hash is its id.
    pub(crate) fn state(self, id: BlobId) -> Result<ConversationStateStructure, RootProblem> {
        match self {
            Self::Missing => Err(RootProblem::Missing),
            Self::TooLarge { .. } | Self::Unreadable => Err(RootProblem::Unreadable),
            Self::Data(data) if BlobId::of(&data) != id => Err(RootProblem::HashMismatch),
            Self::Data(data) => ConversationStateStructure::decode(data.as_slice())
                .map_err(RootProblem::Undecodable),
        }
    }
}

/// Says why a root cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootProblem {
    Missing,
    /// Encrypted or corrupt.
    HashMismatch,
    /// Too large, or in a damaged part of the file.
    Unreadable,
    Undecodable(prost::DecodeError),
}

/// The id and the length of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlob {
    pub(crate) id: BlobId,
    pub(crate) n_bytes: u64,
}

const BY_ID: &str = "SELECT octet_length(data), CASE WHEN octet_length(data) <= ?2 THEN data END \
                     FROM blobs WHERE id = ?1";
const BY_ROW: &str = "SELECT octet_length(data), CASE WHEN octet_length(data) <= ?2 THEN data END \
                      FROM blobs NOT INDEXED WHERE rowid = ?1";
/// Loads at most [`MAX_BLOB_BYTES`].
const DATA: &str = "id, CASE WHEN octet_length(data) <= 67108864 THEN data END";
const LENGTH_BY_ID: &str = "SELECT octet_length(data) FROM blobs WHERE id = ?1";

impl<'c> Blobs<'c> {
    pub(crate) fn new(
        database: &'c ReadOnlyDatabase,
        connection: &'c Connection,
        row_ids: &'c RowIds,
    ) -> Self {
        Self { database, connection, row_ids, handle: RefCell::new(None) }
    }

    /// Reads a blob by the index alone. Damage is an error.
    pub(crate) fn by_index(&self, id: BlobId) -> rusqlite::Result<Fetched> {
        let read = self
            .connection
            .prepare_cached(BY_ID)?
            .query_row((id.to_string(), MAX_BLOB_BYTES), fetched)
            .optional()?;
        Ok(read.unwrap_or(Fetched::Missing))
    }

    pub(crate) fn get(&self, id: BlobId) -> rusqlite::Result<Fetched> {
        let by_index = self.by_index(id)?;
        if by_index != Fetched::Missing {
            return Ok(by_index);
        }
        if self.database.is_salvaged() {
            if let Some(row) = self.misnamed()?.get(&id) {
                return self
                    .connection
                    .prepare_cached(BY_ROW)?
                    .query_row((row, MAX_BLOB_BYTES), fetched);
            }
            let key = id.to_string();
            let lost = self.database.lost(&key..&format!("{key}\0")).next();
            let is_gone = lost.is_some_and(|(_, loss)| loss == Loss::Gone);
            return Ok(if is_gone { Fetched::Unreadable } else { Fetched::Missing });
        }
        // A damaged index may report that an existing blob is missing.
        if self.all_ids()?.contains(&id) { Err(contradiction()) } else { Ok(Fetched::Missing) }
    }

    /// Reads the blob that a field refers to. `None` if the field is not an id, or the blob cannot be read.
    pub(crate) fn data_of(&self, reference: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
        let Ok(id) = BlobId::try_from(reference) else { return Ok(None) };
        Ok(self.get(id)?.data())
    }

    /// Reads a blob as Cursor does: by the index alone.
    pub(crate) fn get_by_index(&self, id: BlobId) -> rusqlite::Result<Fetched> {
        match self.by_index(id) {
            Err(err) if is_damage(&err) => Ok(Fetched::Unreadable),
            read => read,
        }
    }

    /// Returns the number of bytes that Cursor would find under an id. Does not load them.
    pub(crate) fn indexed_length(&self, id: BlobId) -> rusqlite::Result<Option<i64>> {
        let read = self
            .connection
            .prepare_cached(LENGTH_BY_ID)?
            .query_row([id.to_string()], |row| row.get::<_, Option<i64>>(0))
            .optional()?;
        Ok(read.flatten())
    }

    /// True if Cursor would find something under an id. Reads only the index, which has dozens of ids on a page.
    pub(crate) fn is_indexed(&self, id: BlobId) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM blobs WHERE id = ?1")?
            .exists([id.to_string()])
    }

    fn all_ids(&self) -> rusqlite::Result<&'c HashSet<BlobId>> {
        if let Some(ids) = self.row_ids.ids.get() {
            return Ok(ids);
        }
        let mut ids = HashSet::new();
        self.visit(Rows::ALL, "id, NULL", Direction::Forward, &mut |_, id, _| {
            ids.extend(id);
            ControlFlow::Continue(())
        })?;
        Ok(self.row_ids.ids.get_or_init(|| ids))
    }

    /// A blob's id is the hash of its content. A flipped bit may have changed the id in the row.
    fn misnamed(&self) -> rusqlite::Result<&'c HashMap<BlobId, i64>> {
        if let Some(rows) = self.row_ids.misnamed.get() {
            return Ok(rows);
        }
        let mut rows = HashMap::new();
        self.visit(Rows::ALL, DATA, Direction::Forward, &mut |row, id, data| {
            if let ValueRef::Text(data) | ValueRef::Blob(data) = data {
                let actual = BlobId::of(data);
                if id != Some(actual) {
                    rows.insert(actual, row);
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(self.row_ids.misnamed.get_or_init(|| rows))
    }

    /// Reads the first bytes of a blob without loading the rest. Returns `None` if the blob is missing or unreadable.
    pub(crate) fn beginning(
        &self,
        id: BlobId,
        buffer: &mut [u8],
    ) -> rusqlite::Result<Option<usize>> {
        if self.database.is_salvaged() {
            let Fetched::Data(data) = self.get(id)? else { return Ok(None) };
            let length = data.len().min(buffer.len());
            buffer[..length].copy_from_slice(&data[..length]);
            return Ok(Some(length));
        }
        let row: Option<i64> = self
            .connection
            .prepare_cached("SELECT rowid FROM blobs WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()?;
        let Some(row) = row else { return Ok(None) };
        let mut handle = self.handle.borrow_mut();
        let opened = match handle.as_mut() {
            Some(blob) => blob.reopen(row),
            None => {
                let opened = self.connection.blob_open("main", "blobs", "data", row, true);
                opened.map(|blob| *handle = Some(blob))
            }
        };
        let read = opened.and_then(|()| match handle.as_ref() {
            Some(blob) => blob.read_at(buffer, 0),
            None => Ok(0),
        });
        if read.is_err() {
            // A handle that failed to move cannot be reused.
            *handle = None;
        }
        Ok(read.ok())
    }

    /// Calls `visit` with the id and bytes of every blob in these rows, ordered by last write.
    pub(crate) fn scan(
        &self,
        rows: Rows,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<Scanned> {
        self.visit_data(rows, Direction::Forward, visit)?;
        Ok(self.scanned())
    }

    /// Lists all blobs, ordered by last write. Reads no data, unless the store is damaged.
    pub(crate) fn inventory(&self) -> rusqlite::Result<(Vec<StoredBlob>, Scanned)> {
        let mut all = Vec::new();
        // In a damaged store, some blobs have the wrong id. List them under the ids of their content.
        let misnamed: HashMap<i64, BlobId> = if self.database.is_salvaged() {
            self.misnamed()?.iter().map(|(id, row)| (*row, *id)).collect()
        } else {
            HashMap::new()
        };
        let columns = "id, octet_length(data)";
        self.visit(Rows::ALL, columns, Direction::Forward, &mut |row, id, length| {
            if let ValueRef::Integer(n_bytes) = length {
                let n_bytes = u64::try_from(n_bytes).unwrap_or(0);
                let ids = id.into_iter().chain(misnamed.get(&row).copied());
                all.extend(ids.map(|id| StoredBlob { id, n_bytes }));
            }
            ControlFlow::Continue(())
        })?;
        Ok((all, self.scanned()))
    }

    /// Calls `visit` from the newest blob to the oldest.
    pub(crate) fn scan_back(
        &self,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        self.visit_data(Rows::ALL, Direction::Back, visit)
    }

    fn scanned(&self) -> Scanned {
        if self.database.is_salvaged() { Scanned::InPart } else { Scanned::Whole }
    }

    pub(crate) fn is_empty(&self) -> rusqlite::Result<bool> {
        let first =
            self.connection.query_row("SELECT 1 FROM blobs LIMIT 1", [], |_| Ok(())).optional()?;
        Ok(first.is_none())
    }

    /// Splits the rows into ranges of about the same size.
    pub(crate) fn pieces(&self, n_pieces: usize) -> rusqlite::Result<Vec<Rows>> {
        let sql = "SELECT coalesce((SELECT min(rowid) FROM blobs), 0), coalesce((SELECT max(rowid) FROM blobs), 0)";
        let (first, last): (i64, i64) =
            self.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let n_pieces = i64::try_from(n_pieces.max(1)).unwrap_or(1);
        let width = (last.saturating_sub(first) / n_pieces).saturating_add(1);
        let starts = (0..n_pieces)
            .map(|piece| first.saturating_sub(1).saturating_add(width.saturating_mul(piece)));
        Ok(starts.map(|after| Rows { after, until: after.saturating_add(width) }).collect())
    }

    fn visit_data(
        &self,
        rows: Rows,
        direction: Direction,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        self.visit(rows, DATA, direction, &mut |_, id, data| {
            let (ValueRef::Text(data) | ValueRef::Blob(data)) = data else {
                return ControlFlow::Continue(());
            };
            let of_content = || self.database.is_salvaged().then(|| BlobId::of(data));
            match id.or_else(of_content) {
                Some(id) => visit(id, data),
                None => ControlFlow::Continue(()),
            }
        })
    }

    fn visit(
        &self,
        rows: Rows,
        columns: &str,
        direction: Direction,
        visit: &mut VisitRow<'_>,
    ) -> rusqlite::Result<()> {
        let order = match direction {
            Direction::Forward => "ASC",
            Direction::Back => "DESC",
        };
        let sql = format!(
            "SELECT rowid, {columns} FROM blobs NOT INDEXED WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid {order}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query([rows.after, rows.until])?;
        let mut last = None;
        while let Some(row) = found.next()? {
            let number: i64 = row.get(0)?;
            let is_next = last.is_none_or(|last| match direction {
                Direction::Forward => last < number,
                Direction::Back => last > number,
            });
            // SQLite accepts a page that occurs twice while another is missing.
            if !is_next {
                return Err(contradiction());
            }
            last = Some(number);
            let id = row.get_ref(1)?.as_str().ok().and_then(|id| id.parse().ok());
            if visit(number, id, row.get_ref(2)?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

pub(crate) fn fetched(row: &Row<'_>) -> rusqlite::Result<Fetched> {
    let bytes: Option<i64> = row.get(0)?;
    Ok(match (bytes, row.get_ref(1)?) {
        (_, ValueRef::Text(data) | ValueRef::Blob(data)) => Fetched::Data(data.to_vec()),
        (Some(bytes), ValueRef::Null) => Fetched::TooLarge { bytes },
        (_, ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_)) => Fetched::Missing,
    })
}
