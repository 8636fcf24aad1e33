//! Going over all pages, and noting in a database of ours what stands where.

use std::collections::{HashMap, HashSet};

use rusqlite::{CachedStatement, Connection, Statement};

use super::cells::{Cell, IndexKey, cells, index_keys, visit_schema};
use super::page_file::PageFile;
use super::tables::{Table, columns_of_schema};
use super::{Loss, Lost, MendError};

/// How many lost rows are known by name.
const MAX_LOST: usize = 100_000;

/// The columns of a table, and how many its longest row has.
#[derive(Debug, Default)]
struct Columns {
    named: Option<Vec<String>>,
    n_most: usize,
}

/// Fills an empty database. Returns what is known to be missing.
pub(super) fn gather(connection: &Connection, pages: &PageFile) -> Result<Lost, MendError> {
    connection.execute_batch("BEGIN")?;
    for table in Table::ALL {
        connection.execute_batch(&format!(
            "CREATE TABLE \"{}\" (page, at, n_bytes, n_there, is_carved)",
            table.name()
        ))?;
    }
    let mut columns: HashMap<Table, Columns> = HashMap::new();
    let free = pages.free_pages();
    read_schema(pages, &mut columns);
    note_rows(connection, pages, &free, &mut columns)?;
    // The tables of a chat are there together or not at all.
    for (one, other) in [(Table::Blobs, Table::Meta), (Table::Meta, Table::Blobs)] {
        if columns.contains_key(&one) {
            columns.entry(other).or_default();
        }
    }
    for table in Table::ALL {
        match columns.get(&table) {
            Some(columns) => make_readable(connection, table, columns)?,
            None => connection.execute_batch(&format!("DROP TABLE \"{}\"", table.name()))?,
        }
    }
    let tables: Vec<Table> =
        Table::ALL.into_iter().filter(|table| columns.contains_key(table)).collect();
    let lost = find_lost(connection, pages, &free, &tables)?;
    connection.execute_batch("COMMIT")?;
    Ok(lost)
}

fn read_schema(pages: &PageFile, columns: &mut HashMap<Table, Columns>) {
    let mut page = Vec::new();
    if pages.read(1, &mut page).is_ok() {
        visit_schema(&page, &mut |row| {
            if let Some((table, names)) = columns_of_schema(row) {
                columns.entry(table).or_default().named.get_or_insert(names);
            }
        });
    }
}

/// Notes every row, of the pages that are not free.
fn note_rows(
    connection: &Connection,
    pages: &PageFile,
    free: &HashSet<u32>,
    columns: &mut HashMap<Table, Columns>,
) -> rusqlite::Result<()> {
    // A page on which a row continues is of that row alone, so that there is never more than the file holds.
    let mut is_taken = vec![false; pages.n_pages() as usize + 1];
    let mut note = |cell: &Cell| {
        let n_there = pages.follow(cell.place.n_bytes, cell.continued, &mut |page| {
            !std::mem::replace(&mut is_taken[page as usize], true)
        });
        let columns = columns.entry(cell.table).or_default();
        columns.n_most = columns.n_most.max(cell.n_columns);
        note_row(connection, cell, n_there)
    };
    let mut damaged = Vec::new();
    pages.visit(free, &mut |number, page| {
        let (carved, led_to): (Vec<Cell>, Vec<Cell>) =
            cells(page, number, pages.n_pages()).partition(|cell| cell.is_carved);
        if !carved.is_empty() {
            damaged.push(number);
        }
        led_to.iter().try_for_each(&mut note)
    })?;
    // What nothing leads to comes last: it may be from an earlier writing, and takes nothing from anybody.
    let mut page = Vec::new();
    for number in damaged {
        if pages.read(number, &mut page).is_ok() {
            let carved = cells(&page, number, pages.n_pages()).filter(|cell| cell.is_carved);
            carved.into_iter().try_for_each(|cell| note(&cell))?;
        }
    }
    Ok(())
}

fn note_row(connection: &Connection, cell: &Cell, n_there: usize) -> rusqlite::Result<()> {
    let Cell { table, rowid, place, is_carved, .. } = cell;
    let sql = format!(
        "INSERT OR IGNORE INTO \"{}\" (rowid, page, at, n_bytes, n_there, is_carved) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        table.name()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let note = |rowid: Option<i64>, statement: &mut CachedStatement<'_>| {
        let sizes = (place.at as i64, place.n_bytes as i64, n_there as i64);
        statement.execute((rowid, place.page, sizes.0, sizes.1, sizes.2, is_carved))
    };
    // A number that another row has is not its own any more.
    if note(Some(*rowid), &mut statement)? == 0 {
        note(None, &mut statement)?;
    }
    Ok(())
}

/// Gives a table the columns that Cursor's has, and finds its rows by their keys. Of what is there twice, as in what is
/// left of an earlier writing, one stays: whole rather than cut, led to rather than carved, late rather than early.
fn make_readable(connection: &Connection, table: Table, columns: &Columns) -> rusqlite::Result<()> {
    let name = table.name();
    let usual = || table.usual_columns(columns.n_most).into_iter().map(str::to_owned).collect();
    let names: Vec<String> = columns.named.clone().unwrap_or_else(usual);
    for (place, column) in names.iter().enumerate() {
        connection.execute_batch(&format!(
            "ALTER TABLE \"{name}\" ADD COLUMN \"{column}\" AS (cell(page, at, n_bytes, n_there, {place}))"
        ))?;
    }
    let key = table.key().join(", ");
    connection.execute_batch(&format!("CREATE INDEX \"{name} by key\" ON \"{name}\" ({key})"))?;
    // What is only ever added has no earlier writing that something still leads to.
    let is_doubtful = if table == Table::RunEvents { "is_carved" } else { "true" };
    connection.execute_batch(&format!(
        "DELETE FROM \"{name}\" WHERE {is_doubtful} AND rowid IN (
            SELECT rowid FROM (
                SELECT rowid, row_number() OVER (
                    PARTITION BY {key} ORDER BY n_there = n_bytes DESC, is_carved, rowid DESC
                ) AS place FROM \"{name}\" WHERE ({key}) IN (
                    SELECT {key} FROM \"{name}\" GROUP BY {key} HAVING count(*) > 1
                )
            ) WHERE place > 1
         )"
    ))
}

/// Finds the rows that are cut, and those that only an index knows.
fn find_lost(
    connection: &Connection,
    pages: &PageFile,
    free: &HashSet<u32>,
    tables: &[Table],
) -> rusqlite::Result<Lost> {
    let mut lost = Lost::default();
    let mut lookups = Vec::new();
    for table in tables {
        let (name, key) = (table.name(), table.key());
        let mut statement = connection.prepare(&format!(
            "SELECT {} FROM \"{name}\" WHERE n_there < n_bytes LIMIT {MAX_LOST}",
            key.join(" || '/' || ")
        ))?;
        let mut cut = statement.query([])?;
        while let Some(row) = cut.next()? {
            if let Ok(key) = row.get_ref(0)?.as_str() {
                lost.rows.insert(key.to_owned(), Loss::Cut);
            }
        }
        for key in table.indexes() {
            let condition = key.join(" = ? AND ");
            let sql = format!("SELECT 1 FROM \"{name}\" WHERE {condition} = ?");
            lookups.push(Lookup {
                is_main: *key == table.key(),
                n_columns: key.len(),
                n_found: 0,
                statement: connection.prepare(&sql)?,
                name,
            });
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
    // An index that leads to every row that is left is whole, so that it knows those that are not.
    lost.is_all_known = lost.rows.len() < MAX_LOST;
    for lookup in lookups.iter().filter(|lookup| lookup.is_main) {
        let sql = format!("SELECT count(*) FROM \"{}\"", lookup.name);
        let n_rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        lost.is_all_known &= n_rows <= lookup.n_found;
    }
    Ok(lost)
}

/// Looks whether a row is there that an index leads to.
struct Lookup<'c> {
    name: &'static str,
    is_main: bool,
    n_columns: usize,
    n_found: i64,
    statement: Statement<'c>,
}

impl Lookup<'_> {
    fn finds(&mut self, key: &IndexKey) -> rusqlite::Result<bool> {
        let is_there = match key.number {
            None if self.n_columns == 1 => self.statement.exists([&key.text])?,
            Some(number) if self.n_columns == 2 => self.statement.exists((&key.text, number))?,
            _ => false,
        };
        self.n_found += i64::from(is_there);
        Ok(is_there)
    }
}
