//! Finds lost rows: the indexes of a damaged database name rows that are gone.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Statement};

use super::cells::{IndexKey, index_keys};
use super::gather::{IS_DOUBTFUL, IS_WHOLE};
use super::page_file::PageFile;
use super::tables::Table;
use super::{Loss, Lost};

/// The most lost rows to remember by name.
const MAX_LOST: usize = 100_000;

/// Finds cut rows, and rows that only an index names. Removes rows without a pointer if a complete index does not name
/// them, because Cursor deleted them.
pub(super) fn find_lost(
    connection: &Connection,
    pages: &PageFile,
    free: &HashSet<u32>,
    tables: &[Table],
) -> rusqlite::Result<Lost> {
    let mut lost = Lost::default();
    let mut lookups = Vec::new();
    for table in tables {
        note_cut(connection, *table, &mut lost)?;
        for key in table.indexes() {
            lookups.push(Lookup::new(connection, *table, key)?);
        }
    }
    pages.visit(free, &mut |number, page| {
        for key in index_keys(page, number) {
            let mut is_there = false;
            for lookup in &mut lookups {
                is_there |= lookup.finds(&key)?;
            }
            if !is_there && lost.rows.len() < MAX_LOST {
                lost.rows.insert(key.name(), Loss::Gone);
            }
        }
        Ok(())
    })?;
    lost.is_all_known = lost.rows.len() < MAX_LOST;
    for lookup in lookups.iter().filter(|lookup| lookup.is_main) {
        lost.is_all_known &= lookup.finish(connection)?;
    }
    Ok(lost)
}

fn note_cut(connection: &Connection, table: Table, lost: &mut Lost) -> rusqlite::Result<()> {
    let (name, key) = (table.name(), table.key().join(" || '/' || "));
    let sql = format!("SELECT {key} FROM \"{name}\" WHERE NOT ({IS_WHOLE}) LIMIT {MAX_LOST}");
    let mut statement = connection.prepare(&sql)?;
    let mut cut = statement.query([])?;
    while let Some(row) = cut.next()? {
        if let Ok(key) = row.get_ref(0)?.as_str() {
            lost.rows.insert(key.to_owned(), Loss::Cut);
        }
    }
    Ok(())
}

/// Checks whether the rows that an index names exist.
struct Lookup<'c> {
    table: &'static str,
    is_main: bool,
    n_columns: usize,
    n_found: i64,
    /// Rows without a pointer that this index has not named so far.
    doubtful: HashMap<String, i64>,
    statement: Statement<'c>,
}

impl<'c> Lookup<'c> {
    fn new(
        connection: &'c Connection,
        table: Table,
        key: &'static [&'static str],
    ) -> rusqlite::Result<Self> {
        let name = table.name();
        let is_main = key == table.key();
        let mut doubtful = HashMap::new();
        if is_main {
            let key = key.join(" || '/' || ");
            let sql = format!("SELECT {key}, rowid FROM \"{name}\" WHERE {IS_DOUBTFUL}");
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Ok(key) = row.get_ref(0)?.as_str() {
                    doubtful.insert(key.to_owned(), row.get(1)?);
                }
            }
        }
        let condition = key.join(" = ? AND ");
        let statement =
            connection.prepare(&format!("SELECT 1 FROM \"{name}\" WHERE {condition} = ?"))?;
        Ok(Self { table: name, is_main, n_columns: key.len(), n_found: 0, doubtful, statement })
    }

    fn finds(&mut self, key: &IndexKey) -> rusqlite::Result<bool> {
        let is_there = match key.number {
            None if self.n_columns == 1 => self.statement.exists([&key.text])?,
            Some(number) if self.n_columns == 2 => self.statement.exists((&key.text, number))?,
            _ => false,
        };
        if is_there && (self.doubtful.is_empty() || self.doubtful.remove(&key.name()).is_none()) {
            self.n_found += 1;
        }
        Ok(is_there)
    }

    /// True if the index names every row that has a pointer. Then the index is complete.
    fn finish(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let sql = format!("SELECT count(*) FROM \"{}\" WHERE NOT {IS_DOUBTFUL}", self.table);
        let n_rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        let is_whole = n_rows <= self.n_found;
        if is_whole {
            let sql = format!("DELETE FROM \"{}\" WHERE rowid = ?1", self.table);
            let mut statement = connection.prepare(&sql)?;
            for row in self.doubtful.values() {
                statement.execute([row])?;
            }
        }
        Ok(is_whole)
    }
}
