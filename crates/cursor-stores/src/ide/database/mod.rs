//! A `state.vscdb`, open for reading by exact key or by a range of keys.

pub(crate) mod keys;
pub(crate) mod pool;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, Row as SqlRow};

use self::keys::KeyRange;
use crate::database::{
    IndexedTable, ReadDatabaseError, ReadOnlyDatabase, UseDatabaseError, VisitRow,
};

/// Larger values are not loaded.
pub(crate) const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// An open IDE database: the global one, or a workspace's.
#[derive(Debug)]
pub(crate) struct Vscdb {
    pub(crate) database: ReadOnlyDatabase,
    tables: Vec<Table>,
}

/// How much of a small database to check before reading anything.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Check {
    Whole,
    /// Only that these keys of `ItemTable` can be found, which takes a tenth of the time.
    Keys(&'static [&'static str]),
}

/// The key-value tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// `cursorDiskKV`.
    DiskKv,
    /// `ItemTable`. It also contains credentials.
    Items,
}

/// One row of a key-value table.
pub(crate) struct Row<'a> {
    pub(crate) rowid: i64,
    pub(crate) key: &'a str,
    pub(crate) value: Value<'a>,
}

/// The value of a key. Some builds write text, others bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Value<'a> {
    Bytes(Cow<'a, [u8]>),
    /// Cursor deleted the value and left the key.
    Tombstone,
    TooLarge {
        n_bytes: i64,
    },
}

pub(crate) type Visit<'v> = dyn FnMut(Row<'_>) -> ControlFlow<()> + 'v;

impl Table {
    const ALL: [Self; 2] = [Self::DiskKv, Self::Items];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DiskKv => "cursorDiskKV",
            Self::Items => "ItemTable",
        }
    }

    /// The index used to find rows.
    fn index(self) -> IndexedTable {
        IndexedTable { name: self.name(), key: "key" }
    }
}

impl Value<'_> {
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Tombstone => Value::Tombstone,
            Value::TooLarge { n_bytes } => Value::TooLarge { n_bytes },
        }
    }

    /// Returns the bytes, or why there are none.
    pub(crate) fn bytes(&self) -> Result<&[u8], String> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Tombstone => Err("was deleted".to_owned()),
            Value::TooLarge { n_bytes } => Err(format!("has {n_bytes} bytes, too many to read")),
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
    /// Opens a database, and checks it if it is small. For a large one see [`Self::check`].
    fn open(path: &Path, check: Check) -> Result<Self, UseDatabaseError> {
        let database = ReadOnlyDatabase::open(path)?;
        match check {
            Check::Whole => database.check_small()?,
            Check::Keys(_) => {}
        }
        let mut tables = Vec::new();
        for table in Table::ALL {
            if database.has_plain_table(table.name(), ["key", "value"])? {
                tables.push(table);
            }
        }
        if let Check::Keys(keys) = check
            && tables.contains(&Table::Items)
        {
            database.check_keys(&Table::Items.index(), keys)?;
        }
        Ok(Self { database, tables })
    }

    /// Checks the keys of a large database.
    pub(crate) fn check(&self) -> Result<(), ReadDatabaseError> {
        Table::ALL.iter().try_for_each(|table| self.database.check_order(&table.index()))
    }

    pub(crate) fn has(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// Calls `visit` with the rows of a query. A missing table has none.
    fn visit_sql(
        &self,
        table: Table,
        sql: &str,
        params: impl Params,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        if self.has(table) { self.database.visit_rows(sql, params, visit) } else { Ok(()) }
    }

    /// Returns the value of exactly this key.
    pub(crate) fn get(
        &self,
        table: Table,
        key: &str,
    ) -> Result<Option<Value<'static>>, ReadDatabaseError> {
        let sql = format!("SELECT {} FROM {} WHERE key = ?1", row_columns(), table.name());
        let mut value = None;
        self.visit_sql(table, &sql, [key], &mut |row| {
            read_row(row, &mut |row| {
                value = Some(row.value.into_owned());
                ControlFlow::Break(())
            })
        })?;
        Ok(value)
    }

    /// Calls `visit` for every row of a range, sorted by key, without copying values. Begins after the key `after` if
    /// there is one, and updates `after` with every row.
    pub(crate) fn visit_from(
        &self,
        table: Table,
        range: &KeyRange,
        after: &mut Option<String>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let comparison = if after.is_some() { ">" } else { ">=" };
        let sql = format!(
            "SELECT {} FROM {} WHERE key {comparison} ?1 AND key < ?2",
            row_columns(),
            table.name()
        );
        let from = after.clone().unwrap_or_else(|| range.start.clone());
        self.visit_sql(table, &sql, (&from, &range.end), &mut |row| {
            read_row(row, &mut |row| {
                let after = after.get_or_insert_default();
                after.clear();
                after.push_str(row.key);
                visit(row)
            })
        })
    }

    /// Calls `visit` with every key of a range and the number of its row. Reads only the index, no values.
    pub(crate) fn visit_keys(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut dyn FnMut(&str, i64),
    ) -> Result<(), ReadDatabaseError> {
        let sql = format!("SELECT key, rowid FROM {} WHERE key >= ?1 AND key < ?2", table.name());
        self.visit_sql(table, &sql, (&range.start, &range.end), &mut |row| {
            if let Ok(key) = row.get_ref(0)?.as_str() {
                visit(key, row.get(1)?);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Calls `visit` with the agents' blobs among `n_rows` rows, starting at the row with this number. Other rows are
    /// counted, but not loaded.
    pub(crate) fn visit_blobs(
        &self,
        rowid: i64,
        n_rows: u32,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let sql = format!(
            "SELECT rowid, blob, octet_length(value), \
             CASE WHEN blob IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} THEN value END \
             FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS blob, value \
             FROM cursorDiskKV WHERE rowid >= ?1 ORDER BY rowid LIMIT {n_rows})"
        );
        let range = keys::beginning_with(keys::BLOB);
        let params = (rowid, &range.start, &range.end);
        self.visit_sql(Table::DiskKv, &sql, params, &mut |row| read_row(row, visit))
    }

    pub(crate) fn count_keys(
        &self,
        table: Table,
        range: &KeyRange,
    ) -> Result<u64, ReadDatabaseError> {
        let sql = format!("SELECT count(*) FROM {} WHERE key >= ?1 AND key < ?2", table.name());
        if self.has(table) { self.database.count(&sql, (&range.start, &range.end)) } else { Ok(0) }
    }

    /// Returns the first key of a range.
    pub(crate) fn first_key(
        &self,
        table: Table,
        range: &KeyRange,
    ) -> Result<Option<String>, ReadDatabaseError> {
        let sql = format!(
            "SELECT key FROM {} WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1",
            table.name()
        );
        let mut first = None;
        self.visit_sql(table, &sql, (&range.start, &range.end), &mut |row| {
            first = row.get_ref(0)?.as_str().ok().map(str::to_owned);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// Calls `next` with the first key of a range, and then with the first key from the position that it returns. So a
    /// walk skips from one id to the next, and a conversation with thousands of rows costs no more than one with a
    /// single row.
    pub(crate) fn skip(
        &self,
        table: Table,
        mut range: KeyRange,
        next: &mut dyn FnMut(&str) -> Option<String>,
    ) -> Result<(), ReadDatabaseError> {
        if !self.is_indexed(table) {
            return Ok(());
        }
        while let Some(key) = self.first_key(table, &range)? {
            let Some(start) = next(&key) else { break };
            range.start = start;
        }
        Ok(())
    }

    /// True if keys can be found without scanning the table. Databases that Cursor creates always have the index.
    fn is_indexed(&self, table: Table) -> bool {
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
        (_, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Value::Bytes(bytes.into()),
        (ValueRef::Integer(n_bytes), ValueRef::Null) => Value::TooLarge { n_bytes },
        _ => Value::Tombstone,
    };
    Ok(visit(Row { rowid: row.get(0)?, key, value }))
}
