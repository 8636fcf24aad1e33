//! Blobs of one store, all from one read: found by their index, or without it where it is damaged.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::blob::Blob;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::blob_id::BlobId;
use super::chat_store::MAX_BLOB_BYTES;
pub(crate) use crate::damaged_rows::{Rows, Scanned};
use crate::damaged_rows::{Way, WayEnd, visit_around_damage};
use crate::read_only_database::is_damage;

/// The blobs of a store, for as long as one read takes.
pub(crate) struct Blobs<'c> {
    connection: &'c Connection,
    rows_by_id: &'c RowsById,
    peephole: RefCell<Option<Blob<'c>>>,
}

/// Where each blob stands, whatever the index says. Made when the index fails for the first time, and kept as long as the
/// store is open: to make it means to look at every row.
pub(crate) type RowsById = OnceCell<HashMap<BlobId, i64>>;

/// What there is under an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Unchecked; [`BlobId::of`] tells whether it is what the id says.
    Data(Vec<u8>),
    Missing,
    TooLarge {
        bytes: i64,
    },
    /// In a damaged part of the file.
    Unreadable,
}

/// A blob of which only the name and the length were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlob {
    pub(crate) id: BlobId,
    pub(crate) n_bytes: u64,
}

const BY_ID: &str = "SELECT octet_length(data), CASE WHEN octet_length(data) <= ?2 THEN data END \
                     FROM blobs WHERE id = ?1";
const LENGTH_BY_ID: &str = "SELECT octet_length(data) FROM blobs WHERE id = ?1";
const BY_ROW: &str = "SELECT octet_length(data), CASE WHEN octet_length(data) <= ?2 THEN data END \
                      FROM blobs NOT INDEXED WHERE rowid = ?1";

impl<'c> Blobs<'c> {
    pub(crate) fn new(connection: &'c Connection, rows_by_id: &'c RowsById) -> Self {
        Self { connection, rows_by_id, peephole: RefCell::new(None) }
    }

    pub(crate) fn get(&self, id: BlobId) -> rusqlite::Result<Fetched> {
        let by_index = self
            .connection
            .prepare_cached(BY_ID)?
            .query_row((id.to_string(), MAX_BLOB_BYTES), fetched)
            .optional();
        match by_index {
            Ok(Some(fetched)) if fetched != Fetched::Missing => Ok(fetched),
            // A damaged index may as well answer that there is nothing.
            Ok(_) => self.get_without_index(id, Fetched::Missing),
            Err(err) if is_damage(&err) => self.get_without_index(id, Fetched::Unreadable),
            Err(err) => Err(err),
        }
    }

    /// Reads a blob as Cursor itself would: by the index alone.
    pub(super) fn get_by_index(&self, id: BlobId) -> rusqlite::Result<Fetched> {
        let read = self
            .connection
            .prepare_cached(BY_ID)?
            .query_row((id.to_string(), MAX_BLOB_BYTES), fetched)
            .optional();
        match read {
            Ok(read) => Ok(read.unwrap_or(Fetched::Missing)),
            Err(err) if is_damage(&err) => Ok(Fetched::Unreadable),
            Err(err) => Err(err),
        }
    }

    /// Returns how many bytes Cursor would find under an id, without loading them.
    pub(super) fn indexed_length(&self, id: BlobId) -> rusqlite::Result<Option<i64>> {
        let read = self
            .connection
            .prepare_cached(LENGTH_BY_ID)?
            .query_row([id.to_string()], |row| row.get::<_, Option<i64>>(0))
            .optional()?;
        Ok(read.flatten())
    }

    /// Tells whether Cursor would find something under an id. Asks the index alone, of which a page has dozens of ids.
    pub(super) fn is_indexed(&self, id: BlobId) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM blobs WHERE id = ?1")?
            .exists([id.to_string()])
    }

    fn get_without_index(&self, id: BlobId, otherwise: Fetched) -> rusqlite::Result<Fetched> {
        let Some(row) = self.rows_by_id()?.get(&id) else { return Ok(otherwise) };
        let read = self
            .connection
            .prepare_cached(BY_ROW)?
            .query_row((row, MAX_BLOB_BYTES), fetched)
            .optional();
        match read {
            Ok(fetched) => Ok(fetched.unwrap_or(otherwise)),
            Err(err) if is_damage(&err) => Ok(Fetched::Unreadable),
            Err(err) => Err(err),
        }
    }

    fn rows_by_id(&self) -> rusqlite::Result<&'c HashMap<BlobId, i64>> {
        if let Some(rows) = self.rows_by_id.get() {
            return Ok(rows);
        }
        let mut rows = HashMap::new();
        self.both_ways(Rows::ALL, "id, NULL", &mut |row, id, _| {
            rows.insert(id, row);
            ControlFlow::Continue(())
        })?;
        Ok(self.rows_by_id.get_or_init(|| rows))
    }

    /// Reads the first bytes of a blob without loading the rest. `None` if it is not there or cannot be read so.
    pub(crate) fn beginning(
        &self,
        id: BlobId,
        buffer: &mut [u8],
    ) -> rusqlite::Result<Option<usize>> {
        let row: Option<i64> = match self
            .connection
            .prepare_cached("SELECT rowid FROM blobs WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()
        {
            Ok(row) => row,
            Err(err) if is_damage(&err) => None,
            Err(err) => return Err(err),
        };
        let Some(row) = row else { return Ok(None) };
        let mut peephole = self.peephole.borrow_mut();
        let opened = match peephole.as_mut() {
            Some(blob) => blob.reopen(row),
            None => {
                let opened = self.connection.blob_open("main", "blobs", "data", row, true);
                opened.map(|blob| *peephole = Some(blob))
            }
        };
        let read = opened.and_then(|()| match peephole.as_ref() {
            Some(blob) => blob.read_at(buffer, 0),
            None => Ok(0),
        });
        if read.is_err() {
            // A handle that failed to move cannot be used again.
            *peephole = None;
        }
        Ok(read.ok())
    }

    /// Calls `visit` with id and bytes of every blob among these rows that can be read, in the order of their last
    /// writing as long as nothing is damaged.
    pub(crate) fn scan(
        &self,
        rows: Rows,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<Scanned> {
        let columns = format!("id, CASE WHEN octet_length(data) <= {MAX_BLOB_BYTES} THEN data END");
        self.both_ways(rows, &columns, &mut |_, id, data| match data {
            ValueRef::Text(data) | ValueRef::Blob(data) => visit(id, data),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => ControlFlow::Continue(()),
        })
    }

    /// Everything that is there, in the order of its last writing as long as nothing is damaged. No data is read.
    pub(crate) fn inventory(&self) -> rusqlite::Result<(Vec<StoredBlob>, Scanned)> {
        let mut all = Vec::new();
        let scanned =
            self.both_ways(Rows::ALL, "id, octet_length(data)", &mut |_, id, length| {
                if let ValueRef::Integer(n_bytes) = length {
                    all.push(StoredBlob { id, n_bytes: u64::try_from(n_bytes).unwrap_or(0) });
                }
                ControlFlow::Continue(())
            })?;
        Ok((all, scanned))
    }

    /// Calls `visit` from the newest blob to the oldest.
    pub(crate) fn scan_back(
        &self,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let columns = format!("id, CASE WHEN octet_length(data) <= {MAX_BLOB_BYTES} THEN data END");
        let mut last = i64::MAX;
        let scanned = self.one_way(Rows::ALL, &columns, "DESC", &mut |row, id, data| {
            last = row;
            match data {
                ValueRef::Text(data) | ValueRef::Blob(data) => visit(id, data),
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
                    ControlFlow::Continue(())
                }
            }
        });
        match scanned {
            Err(err) if is_damage(&err) => self.scan_back_one_by_one(last, visit),
            scanned => scanned,
        }
    }

    /// As [`Self::scan_back`] from a damaged page on: the rows that are known to be there, each by itself.
    fn scan_back_one_by_one(
        &self,
        before: i64,
        visit: &mut dyn FnMut(BlobId, &[u8]) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let rows = self.rows_by_id()?.iter().map(|(id, row)| (*row, *id));
        let mut rows: Vec<(i64, BlobId)> = rows.filter(|(row, _)| *row < before).collect();
        rows.sort_unstable_by_key(|(row, _)| std::cmp::Reverse(*row));
        for (_, id) in rows {
            if let Fetched::Data(data) = self.get_without_index(id, Fetched::Missing)?
                && visit(id, &data).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> rusqlite::Result<bool> {
        let first =
            self.connection.query_row("SELECT 1 FROM blobs LIMIT 1", [], |_| Ok(())).optional()?;
        Ok(first.is_none())
    }

    /// Splits the rows there are into ranges, each of about the same number of them.
    pub(crate) fn pieces(&self, n_pieces: usize) -> rusqlite::Result<Vec<Rows>> {
        let sql = "SELECT coalesce((SELECT min(rowid) FROM blobs), 0), coalesce((SELECT max(rowid) FROM blobs), 0)";
        let ends = self.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (first, last): (i64, i64) = match ends {
            Err(err) if is_damage(&err) => return Ok(vec![Rows::ALL]),
            ends => ends?,
        };
        let n_pieces = i64::try_from(n_pieces.max(1)).unwrap_or(1);
        let width = (last.saturating_sub(first) / n_pieces).saturating_add(1);
        let starts = (0..n_pieces)
            .map(|piece| first.saturating_sub(1).saturating_add(width.saturating_mul(piece)));
        Ok(starts.map(|after| Rows { after, until: after.saturating_add(width) }).collect())
    }

    /// Goes around damaged pages.
    fn both_ways(
        &self,
        rows: Rows,
        columns: &str,
        visit: &mut dyn FnMut(i64, BlobId, ValueRef<'_>) -> ControlFlow<()>,
    ) -> rusqlite::Result<Scanned> {
        visit_around_damage(rows, &mut |rows, direction| {
            let mut way = Way { last: None, end: WayEnd::Reached };
            let walked = self.one_way(rows, columns, direction.order(), &mut |row, id, data| {
                way.last = Some(row);
                let flow = visit(row, id, data);
                if flow.is_break() {
                    way.end = WayEnd::Stopped;
                }
                flow
            });
            match walked {
                Ok(()) => Ok(way),
                Err(err) if is_damage(&err) => Ok(Way { end: WayEnd::Damaged, ..way }),
                Err(err) => Err(err),
            }
        })
    }

    fn one_way(
        &self,
        rows: Rows,
        columns: &str,
        order: &str,
        visit: &mut dyn FnMut(i64, BlobId, ValueRef<'_>) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT rowid, {columns} FROM blobs NOT INDEXED WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid {order}"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query([rows.after, rows.until])?;
        while let Some(row) = found.next()? {
            let id = row.get_ref(1)?.as_str().ok().and_then(|id| id.parse().ok());
            let Some(id) = id else { continue };
            if visit(row.get(0)?, id, row.get_ref(2)?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn fetched(row: &Row<'_>) -> rusqlite::Result<Fetched> {
    let bytes: Option<i64> = row.get(0)?;
    Ok(match (bytes, row.get_ref(1)?) {
        (_, ValueRef::Text(data) | ValueRef::Blob(data)) => Fetched::Data(data.to_vec()),
        (Some(bytes), ValueRef::Null) => Fetched::TooLarge { bytes },
        (_, ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_)) => Fetched::Missing,
    })
}
