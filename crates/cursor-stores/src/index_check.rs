//! Finding damage that SQLite does not notice: an index that leads past rows which are there.
//!
//! A flipped bit in a key of an index, or in a number that leads from page to page, is no error to SQLite. The row is not
//! found where it should be, and that is all.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, ToSql};

use crate::mending;
use crate::read_only_database::{ReadDatabaseError, ReadOnlyDatabase};

/// In a file of this size every row is looked at in some milliseconds.
const SMALL: u64 = 32 * 1024 * 1024;

/// A table, and the columns by which its rows are found.
pub(crate) struct IndexedTable {
    /// What this is called here; a table has several.
    pub(crate) index: &'static str,
    pub(crate) name: &'static str,
    pub(crate) key: &'static [&'static str],
}

impl ReadOnlyDatabase {
    /// Fails as if the file had changed if a table and its index contradict each other. Found out once for each state
    /// of a file, and not for large ones.
    pub(crate) fn check_small(&self, tables: &[IndexedTable]) -> Result<(), ReadDatabaseError> {
        if self.fingerprint().n_bytes() > SMALL {
            return Ok(());
        }
        self.check_by(tables, |connection, table| {
            Ok(is_indexed(connection, table)? && !does_lead_to_all(connection, table)?)
        })
    }

    /// As [`Self::check_small`] for files of any size, of which only the order of the keys is looked at.
    pub(crate) fn check_order(&self, tables: &[IndexedTable]) -> Result<(), ReadDatabaseError> {
        self.check_by(tables, |connection, table| {
            Ok(is_indexed(connection, table)? && !is_in_order(connection, table)?)
        })
    }

    fn check_by(
        &self,
        tables: &[IndexedTable],
        is_broken: impl Fn(&Connection, &IndexedTable) -> rusqlite::Result<bool>,
    ) -> Result<(), ReadDatabaseError> {
        for table in tables {
            if self.is_in_part() || mending::is_sound(self.path(), self.fingerprint(), table.index)
            {
                continue;
            }
            let columns = self.stored_columns(table.name)?;
            let has_key = table.key.iter().all(|key| columns.iter().any(|name| name == key));
            if has_key && self.read(|connection| is_broken(connection, table))? {
                return Err(self.begin_anew());
            }
            mending::note_sound(self.path(), self.fingerprint(), table.index);
        }
        Ok(())
    }
}

/// They always are in a database that Cursor made.
fn is_indexed(connection: &Connection, table: &IndexedTable) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) > 0 FROM pragma_index_list(?1) AS list \
               WHERE (SELECT name FROM pragma_index_info(list.name) WHERE seqno = 0) = ?2";
    connection.query_row(sql, [table.name, table.key[0]], |row| row.get(0))
}

fn does_lead_to_all(connection: &Connection, table: &IndexedTable) -> rusqlite::Result<bool> {
    let IndexedTable { name, key, .. } = table;
    let columns = key.join(", ");
    let conditions: Vec<String> =
        (1..).zip(*key).map(|(place, column)| format!("{column} = ?{place}")).collect();
    let all = format!("SELECT rowid, {columns} FROM {name} NOT INDEXED ORDER BY rowid");
    let one = format!("SELECT rowid FROM {name} WHERE {}", conditions.join(" AND "));
    let mut one = connection.prepare(&one)?;
    let mut all = connection.prepare(&all)?;
    let mut rows = all.query([])?;
    let (mut last, mut n_rows) = (None, 0_i64);
    while let Some(row) = rows.next()? {
        let rowid: i64 = row.get(0)?;
        // No key of Cursor's is anything but text or a number.
        let Ok(values) = key_of(row, key) else { return Ok(false) };
        // No two rows are one, and none comes twice.
        let is_next = last.is_none_or(|last| last < rowid);
        let params: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        let is_found = values.contains(&Value::Null)
            || one.query_map(params.as_slice(), |row| row.get(0))?.any(|found| found == Ok(rowid));
        if !is_next || !is_found {
            return Ok(false);
        }
        last = Some(rowid);
        n_rows += 1;
    }
    let n_entries: i64 =
        connection.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0))?;
    Ok(n_entries == n_rows)
}

fn is_in_order(connection: &Connection, table: &IndexedTable) -> rusqlite::Result<bool> {
    let IndexedTable { name, key, .. } = table;
    let mut statement =
        connection.prepare(&format!("SELECT {0} FROM {name} ORDER BY {0}", key[0]))?;
    let mut rows = statement.query([])?;
    let mut last = Vec::new();
    while let Some(row) = rows.next()? {
        let (ValueRef::Text(key) | ValueRef::Blob(key)) = row.get_ref(0)? else { continue };
        if key < last.as_slice() {
            return Ok(false);
        }
        last.clear();
        last.extend_from_slice(key);
    }
    Ok(true)
}

fn key_of(row: &Row<'_>, key: &[&str]) -> rusqlite::Result<Vec<Value>> {
    (1..=key.len()).map(|place| row.get(place)).collect()
}
