//! Finds damage that SQLite does not notice: an index that lacks rows.
//!
//! SQLite reports no error if a bit flips in an index key or in a page number. It just does not find the row.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::database::salvage;
use crate::database::{ReadDatabaseError, ReadOnlyDatabase};

/// Checking a whole file of this size takes a few dozen milliseconds.
const SMALL: u64 = 16 * 1024 * 1024;

/// A table, and the column of its index.
pub(crate) struct IndexedTable {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
}

impl ReadOnlyDatabase {
    /// Checks that tables and indexes agree. If they do not, this fails as if the file had changed. Checks only small
    /// files, and each state of a file only once.
    pub(crate) fn check_small(&self) -> Result<(), ReadDatabaseError> {
        if self.fingerprint().n_bytes() > SMALL {
            return Ok(());
        }
        self.check("all of it", |connection| {
            let sql = "PRAGMA integrity_check(1)";
            connection.query_row(sql, [], |row| Ok(row.get_ref(0)? == ValueRef::Text(b"ok")))
        })
    }

    /// Like [`Self::check_small`], but for a table of any size. Checks only the order of the keys.
    pub(crate) fn check_order(&self, table: &IndexedTable) -> Result<(), ReadDatabaseError> {
        if !self.stored_columns(table.name)?.iter().any(|column| column == table.key) {
            return Ok(());
        }
        self.check(table.name, |connection| {
            Ok(!is_indexed(connection, table)? || is_in_order(connection, table, &mut |_| true)?)
        })
    }

    /// Like [`Self::check_small`] at a tenth of the cost, for a reader of a few keys. Checks that the index has as many
    /// keys as the table, in order, and that no key differs from a wanted key by one bit.
    pub(crate) fn check_keys(
        &self,
        table: &IndexedTable,
        wanted: &[&str],
    ) -> Result<(), ReadDatabaseError> {
        if self.fingerprint().n_bytes() > SMALL {
            return Ok(());
        }
        self.check("its keys", |connection| {
            let mut n_keys = 0;
            let is_sound = is_in_order(connection, table, &mut |key| {
                n_keys += 1;
                !wanted.iter().any(|wanted| differs_by_a_bit(key, wanted.as_bytes()))
            })?;
            // `NOT INDEXED` makes SQLite count the rows in the table, not in the index.
            let sql = format!("SELECT count(*) FROM {} NOT INDEXED", table.name);
            Ok(is_sound && n_keys == connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
        })
    }

    fn check(
        &self,
        part: &'static str,
        is_sound: impl FnOnce(&Connection) -> rusqlite::Result<bool>,
    ) -> Result<(), ReadDatabaseError> {
        if self.is_salvaged() || salvage::is_sound(self.path(), self.fingerprint(), part) {
            return Ok(());
        }
        match self.read(is_sound) {
            Ok(true) => {}
            Ok(false) => return Err(self.start_again()),
            // A check that cannot run proves nothing. The reader will run into the same error.
            Err(ReadDatabaseError::Sqlite(_)) => {}
            Err(err) => return Err(err),
        }
        salvage::note_sound(self.path(), self.fingerprint(), part);
        Ok(())
    }
}

/// Databases that Cursor creates always have this index.
fn is_indexed(connection: &Connection, table: &IndexedTable) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) > 0 FROM pragma_index_list(?1) AS list \
               WHERE (SELECT name FROM pragma_index_info(list.name) WHERE seqno = 0) = ?2";
    connection.query_row(sql, [table.name, table.key], |row| row.get(0))
}

fn differs_by_a_bit(one: &[u8], other: &[u8]) -> bool {
    let bits = one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones());
    one.len() == other.len() && bits.sum::<u32>() == 1
}

/// True if the index keys are in order, and `is_sound` accepts each of them.
fn is_in_order(
    connection: &Connection,
    table: &IndexedTable,
    is_sound: &mut dyn FnMut(&[u8]) -> bool,
) -> rusqlite::Result<bool> {
    let IndexedTable { name, key } = table;
    let mut statement = connection.prepare(&format!("SELECT {key} FROM {name} ORDER BY {key}"))?;
    let mut rows = statement.query([])?;
    let mut last = Vec::new();
    while let Some(row) = rows.next()? {
        // Other values sort after all texts. Cursor writes none.
        let ValueRef::Text(key) = row.get_ref(0)? else {
            is_sound(&[]);
            continue;
        };
        if !is_sound(key) || key < last.as_slice() {
            return Ok(false);
        }
        last.clear();
        last.extend_from_slice(key);
    }
    Ok(true)
}
