//! A `state.vscdb`, open for reading by exact key or by a range of keys.

pub(crate) mod keys;
pub(crate) mod pool;

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use self::keys::KeyRange;
use crate::database::IndexedTable;
use crate::database::again::again_if;
use crate::database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};

/// Larger values are not loaded.
const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// The indexes through which rows are found.
const INDEXES: [IndexedTable; 2] = [
    IndexedTable { name: "cursorDiskKV", key: "key" },
    IndexedTable { name: "ItemTable", key: "key" },
];

/// An open database of the IDE: the global one, or the one of a workspace.
#[derive(Debug)]
pub(crate) struct Vscdb {
    pub(crate) database: ReadOnlyDatabase,
    has_disk_kv: bool,
    has_items: bool,
}

/// The tables of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// `cursorDiskKV`.
    DiskKv,
    /// `ItemTable`. It holds credentials, too.
    Items,
}

/// One row of a table of keys and values.
pub(crate) struct Row<'a> {
    pub(crate) rowid: i64,
    pub(crate) key: &'a str,
    pub(crate) value: Value<'a>,
}

/// The value of a key. Some builds write text, some write bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    /// Cursor deleted the value and left the key.
    Tombstone,
    TooLarge {
        n_bytes: i64,
    },
}

/// An owned [`Value`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnedValue {
    Bytes(Vec<u8>),
    Tombstone,
    TooLarge { n_bytes: i64 },
}

/// Rows next to a row, by its number, and how many of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Neighbours {
    From(i64, u32),
    Before(i64, u32),
}

pub(crate) type Visit<'v> = dyn FnMut(Row<'_>) -> ControlFlow<()> + 'v;

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DiskKv => "cursorDiskKV",
            Self::Items => "ItemTable",
        }
    }
}

impl Value<'_> {
    pub(crate) fn to_owned(self) -> OwnedValue {
        match self {
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
            Value::Tombstone => OwnedValue::Tombstone,
            Value::TooLarge { n_bytes } => OwnedValue::TooLarge { n_bytes },
        }
    }
}

/// The columns that [`read_row`] reads. The length comes from the header of the row, so a large value is not loaded.
fn row_columns() -> String {
    format!(
        "rowid, key, octet_length(value), CASE WHEN octet_length(value) <= {MAX_VALUE_BYTES} THEN value END"
    )
}

impl Vscdb {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        // `Changing` means here that another process wrote to the database, or that the check just found damage.
        again_if(|err| matches!(err, OpenDatabaseError::Changing), || Self::open_once(path))
    }

    /// Checks a small database before anything is read. For a large one see [`Self::check`].
    fn open_once(path: &Path) -> Result<Self, OpenDatabaseError> {
        let database = ReadOnlyDatabase::open(path)?;
        let look = || {
            database.check_small()?;
            let has = |table: Table| database.has_plain_table(table.name(), ["key", "value"]);
            Ok((has(Table::DiskKv)?, has(Table::Items)?))
        };
        let (has_disk_kv, has_items) = look().map_err(ReadDatabaseError::of_opening)?;
        Ok(Self { database, has_disk_kv, has_items })
    }

    /// Checks the keys of a large database.
    pub(crate) fn check(&self) -> Result<(), ReadDatabaseError> {
        INDEXES.iter().try_for_each(|table| self.database.check_order(table))
    }

    pub(crate) fn has(&self, table: Table) -> bool {
        match table {
            Table::DiskKv => self.has_disk_kv,
            Table::Items => self.has_items,
        }
    }

    /// Returns the value of exactly this key.
    pub(crate) fn get(
        &self,
        table: Table,
        key: &str,
    ) -> Result<Option<OwnedValue>, ReadDatabaseError> {
        if !self.has(table) {
            return Ok(None);
        }
        let sql = format!("SELECT {} FROM {} WHERE key = ?1", row_columns(), table.name());
        self.database.read(|connection| {
            let mut value = None;
            connection
                .prepare_cached(&sql)?
                .query_row([key], |row| {
                    read_row(row, &mut |row| {
                        value = Some(row.value.to_owned());
                        ControlFlow::Continue(())
                    })
                })
                .optional()?;
            Ok(value)
        })
    }

    /// Calls `visit` for every row of a range, sorted by key, without copying values. Begins after the key `after` if
    /// there is one, and moves it with every row.
    pub(crate) fn visit_from(
        &self,
        table: Table,
        range: &KeyRange,
        after: &mut Option<String>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadDatabaseError> {
        if !self.has(table) {
            return Ok(());
        }
        let comparison = if after.is_some() { ">" } else { ">=" };
        let sql = format!(
            "SELECT {} FROM {} WHERE key {comparison} ?1 AND key < ?2",
            row_columns(),
            table.name()
        );
        let from = after.clone().unwrap_or_else(|| range.start.clone());
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((&from, &range.end))?;
            while let Some(row) = rows.next()? {
                let flow = read_row(row, &mut |row| {
                    match after {
                        Some(after) => {
                            after.clear();
                            after.push_str(row.key);
                        }
                        None => *after = Some(row.key.to_owned()),
                    }
                    visit(row)
                })?;
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Calls `visit` with every key of a range and the number of its row. Reads only the index, no values.
    pub(crate) fn visit_keys(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut dyn FnMut(&str, i64),
    ) -> Result<(), ReadDatabaseError> {
        if !self.has(table) {
            return Ok(());
        }
        let sql = format!("SELECT key, rowid FROM {} WHERE key >= ?1 AND key < ?2", table.name());
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((&range.start, &range.end))?;
            while let Some(row) = rows.next()? {
                if let Ok(key) = row.get_ref(0)?.as_str() {
                    visit(key, row.get(1)?);
                }
            }
            Ok(())
        })
    }

    /// Calls `visit` with the blobs of the agents among the rows next to one. Other rows are counted, but not loaded.
    pub(crate) fn visit_blobs(
        &self,
        rows: Neighbours,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let (rowid, chosen) = match rows {
            Neighbours::From(rowid, n_rows) => {
                (rowid, format!("rowid >= ?1 ORDER BY rowid LIMIT {n_rows}"))
            }
            Neighbours::Before(rowid, n_rows) => {
                (rowid, format!("rowid < ?1 ORDER BY rowid DESC LIMIT {n_rows}"))
            }
        };
        let sql = format!(
            "SELECT rowid, blob, octet_length(value), \
             CASE WHEN blob IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} THEN value END \
             FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS blob, value \
             FROM cursorDiskKV WHERE {chosen})"
        );
        let range = keys::beginning_with(keys::BLOB);
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((rowid, &range.start, &range.end))?;
            while let Some(row) = rows.next()? {
                if read_row(row, visit)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    pub(crate) fn count_keys(
        &self,
        table: Table,
        range: &KeyRange,
    ) -> Result<u64, ReadDatabaseError> {
        if !self.has(table) {
            return Ok(0);
        }
        let sql = format!("SELECT count(*) FROM {} WHERE key >= ?1 AND key < ?2", table.name());
        self.database.read(|connection| {
            connection
                .prepare_cached(&sql)?
                .query_row((&range.start, &range.end), |row| row.get::<_, i64>(0))
                .map(|count| u64::try_from(count).unwrap_or(0))
        })
    }

    /// Returns the first key of a range, for walks that skip from one id to the next.
    pub(crate) fn first_key(
        &self,
        table: Table,
        range: &KeyRange,
    ) -> Result<Option<String>, ReadDatabaseError> {
        if !self.has(table) {
            return Ok(None);
        }
        let sql = format!(
            "SELECT key FROM {} WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1",
            table.name()
        );
        self.database.read(|connection| {
            let read = |row: &SqlRow<'_>| Ok(row.get_ref(0)?.as_str().ok().map(str::to_owned));
            let key = connection
                .prepare_cached(&sql)?
                .query_row((&range.start, &range.end), read)
                .optional()?;
            Ok(key.flatten())
        })
    }

    /// Calls `visit` with every composer that has rows of a family. Skips from one composer to the next, so that a
    /// conversation of thousands of rows costs no more than one with a single row.
    pub(crate) fn visit_composers(
        &self,
        family: &str,
        visit: &mut dyn FnMut(&str),
    ) -> Result<(), ReadDatabaseError> {
        if !self.has(Table::DiskKv) || !self.is_indexed(Table::DiskKv) {
            return Ok(());
        }
        let KeyRange { start: mut from, end } = keys::beginning_with(family);
        let sql = "SELECT key FROM cursorDiskKV WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1";
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            loop {
                let mut rows = statement.query((&from, &end))?;
                let Some(row) = rows.next()? else { return Ok(()) };
                let Ok(key) = row.get_ref(0)?.as_str() else { return Ok(()) };
                from = match keys::split(family, key) {
                    Some((composer, _)) => {
                        visit(composer);
                        keys::of_composer(family, composer).end
                    }
                    None => keys::after(key),
                };
            }
        })
    }

    /// True if keys can be found without scanning the table. Databases that Cursor creates always have the index.
    pub(crate) fn is_indexed(&self, table: Table) -> bool {
        self.database
            .read(|connection: &Connection| {
                let sql = "SELECT count(*) > 0 FROM pragma_index_list(?1)";
                connection.query_row(sql, [table.name()], |row| row.get(0))
            })
            .unwrap_or(false)
    }
}

/// Reads the columns of [`row_columns`]. Skips a key that is not text.
fn read_row(row: &SqlRow<'_>, visit: &mut Visit<'_>) -> rusqlite::Result<ControlFlow<()>> {
    let Ok(key) = row.get_ref(1)?.as_str() else { return Ok(ControlFlow::Continue(())) };
    let value = match (row.get_ref(2)?, row.get_ref(3)?) {
        (_, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Value::Bytes(bytes),
        (ValueRef::Integer(n_bytes), ValueRef::Null) => Value::TooLarge { n_bytes },
        _ => Value::Tombstone,
    };
    Ok(visit(Row { rowid: row.get(0)?, key, value }))
}
