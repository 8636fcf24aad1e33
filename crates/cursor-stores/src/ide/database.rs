//! A `state.vscdb`, open for reading: values by exact key or by range of keys, and nothing else.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use super::keys::{self, KeyRange};
use crate::again::ATTEMPTS;
use crate::index_check::IndexedTable;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};

/// No value above this is loaded.
pub(super) const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// By what rows are found.
const INDEXES: [IndexedTable; 2] = [
    IndexedTable { name: "cursorDiskKV", key: "key" },
    IndexedTable { name: "ItemTable", key: "key" },
];

/// An open database of the IDE: the global one, or that of a workspace.
#[derive(Debug)]
pub(super) struct Vscdb {
    pub(super) database: ReadOnlyDatabase,
    has_disk_kv: bool,
    has_items: bool,
}

/// The tables of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Table {
    /// `cursorDiskKV`.
    DiskKv,
    /// `ItemTable`, in which credentials lie beside all else.
    Items,
}

/// One row of a table of keys and values.
pub(super) struct Row<'a> {
    pub(super) rowid: i64,
    pub(super) key: &'a str,
    pub(super) value: Value<'a>,
}

/// What stands at a key. Text and bytes are the same: some builds write one, some the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Bytes(&'a [u8]),
    /// Deleted: Cursor leaves the key.
    Tombstone,
    TooLarge {
        n_bytes: i64,
    },
}

/// As [`Value`], kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnedValue {
    Bytes(Vec<u8>),
    Tombstone,
    TooLarge { n_bytes: i64 },
}

pub(super) type Visit<'v> = dyn FnMut(Row<'_>) -> ControlFlow<()> + 'v;

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DiskKv => "cursorDiskKV",
            Self::Items => "ItemTable",
        }
    }
}

impl Value<'_> {
    pub(super) fn to_owned(self) -> OwnedValue {
        match self {
            Value::Bytes(bytes) => OwnedValue::Bytes(bytes.to_vec()),
            Value::Tombstone => OwnedValue::Tombstone,
            Value::TooLarge { n_bytes } => OwnedValue::TooLarge { n_bytes },
        }
    }
}

/// The columns that [`read_row`] reads. The length is in the head of the row, so what is too large is not loaded.
pub(super) fn row_columns() -> String {
    format!(
        "rowid, key, octet_length(value), CASE WHEN octet_length(value) <= {MAX_VALUE_BYTES} THEN value END"
    )
}

impl Vscdb {
    pub(super) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        for _ in 0..ATTEMPTS {
            match Self::open_once(path)? {
                Ok(database) => return Ok(database),
                // It was written to, or is known to be damaged now.
                Err(ReadDatabaseError::Changed) => {}
                Err(ReadDatabaseError::Sqlite(err)) => return Err(OpenDatabaseError::Sqlite(err)),
            }
        }
        Err(OpenDatabaseError::Changing)
    }

    /// A small one is looked over before anything is read; a large one when it is worth it.
    fn open_once(path: &Path) -> Result<Result<Self, ReadDatabaseError>, OpenDatabaseError> {
        let database = ReadOnlyDatabase::open(path)?;
        let look = || {
            database.check_small()?;
            let has = |table: Table| database.has_plain_table(table.name(), ["key", "value"]);
            Ok((has(Table::DiskKv)?, has(Table::Items)?))
        };
        Ok(look().map(|(has_disk_kv, has_items)| Self { database, has_disk_kv, has_items }))
    }

    /// Looks over the keys of a large database.
    pub(super) fn check(&self) -> Result<(), ReadDatabaseError> {
        INDEXES.iter().try_for_each(|table| self.database.check_order(table))
    }

    pub(super) fn has(&self, table: Table) -> bool {
        match table {
            Table::DiskKv => self.has_disk_kv,
            Table::Items => self.has_items,
        }
    }

    /// Returns what stands at exactly this key.
    pub(super) fn get(
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

    /// Calls `visit` for every row of a range, without a copy of the value, in the order of the keys. `after` is where
    /// to begin instead of at the start of the range, and is moved with every row.
    pub(super) fn visit_from(
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

    /// Calls `visit` with every key of a range and the number of its row, from the index alone.
    pub(super) fn visit_row_numbers(
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

    /// Calls `visit` with the keys of a range, which the index has: no value is looked at.
    pub(super) fn visit_keys(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(), ReadDatabaseError> {
        if !self.has(table) {
            return Ok(());
        }
        let sql = format!("SELECT key FROM {} WHERE key >= ?1 AND key < ?2", table.name());
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((&range.start, &range.end))?;
            while let Some(row) = rows.next()? {
                if let Ok(key) = row.get_ref(0)?.as_str()
                    && visit(key).is_break()
                {
                    break;
                }
            }
            Ok(())
        })
    }

    pub(super) fn count_keys(
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

    /// Returns the first key of a range: what a walk that skips from one id to the next is made of.
    pub(super) fn first_key(
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

    /// Calls `visit` with every composer that has rows of a family: skips from one to the next, so that a conversation
    /// of thousands of rows costs no more than one of a single row.
    pub(super) fn visit_composers(
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

    /// Tells whether keys can be found without a look at all rows. They always can in a database that Cursor made.
    pub(super) fn is_indexed(&self, table: Table) -> bool {
        self.database
            .read(|connection: &Connection| {
                let sql = "SELECT count(*) > 0 FROM pragma_index_list(?1)";
                connection.query_row(sql, [table.name()], |row| row.get(0))
            })
            .unwrap_or(false)
    }
}

/// Reads the columns of [`row_columns`]. A key that is no text is passed over.
pub(super) fn read_row(
    row: &SqlRow<'_>,
    visit: &mut Visit<'_>,
) -> rusqlite::Result<ControlFlow<()>> {
    let Ok(key) = row.get_ref(1)?.as_str() else { return Ok(ControlFlow::Continue(())) };
    let value = match (row.get_ref(2)?, row.get_ref(3)?) {
        (_, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Value::Bytes(bytes),
        (ValueRef::Integer(n_bytes), ValueRef::Null) => Value::TooLarge { n_bytes },
        _ => Value::Tombstone,
    };
    Ok(visit(Row { rowid: row.get(0)?, key, value }))
}
