//! Goes through all pages, and records in our own database where each row is.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::cells::{Cell, cells, children, visit_schema};
use super::lost_rows::find_lost;
use super::page_file::PageFile;
use super::tables::{Table, columns_of_schema};
use super::{Lost, SalvageError};

/// Much longer than any real file takes.
const LIMIT: Duration = Duration::from_secs(300);
/// How often a statement checks the time.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// Our own columns, under names that Cursor does not use: where a row is, and how many of its bytes are left.
const PLACE: &str = r#""our page", "our at", "our n_bytes", "our n_there""#;
pub(super) const IS_WHOLE: &str = r#""our n_there" = "our n_bytes""#;
/// No pointer leads to the row, or another row has the same number.
pub(super) const IS_DOUBTFUL: &str = r#""our is_doubtful""#;

/// The columns of a table, and the number of columns in its longest row.
#[derive(Debug, Default)]
struct Columns {
    named: Option<Vec<String>>,
    n_most: usize,
}

/// Fills an empty database. Returns the rows known to be lost.
pub(super) fn gather(connection: &mut Connection, pages: &PageFile) -> Result<Lost, SalvageError> {
    let begun = Instant::now();
    let is_over = move || begun.elapsed() > LIMIT;
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
    let transaction = connection.transaction()?;
    let lost = fill(&transaction, pages, &is_over)?;
    transaction.commit()?;
    connection.progress_handler(0, None::<fn() -> bool>)?;
    Ok(lost)
}

fn fill(
    connection: &Connection,
    pages: &PageFile,
    is_over: &dyn Fn() -> bool,
) -> rusqlite::Result<Lost> {
    for table in Table::ALL {
        let sql = format!("CREATE TABLE \"{}\" ({PLACE}, {IS_DOUBTFUL})", table.name());
        connection.execute_batch(&sql)?;
    }
    let mut columns: HashMap<Table, Columns> = HashMap::new();
    let free = free_pages(pages)?;
    read_schema(pages, &mut columns);
    note_rows(connection, pages, &free, &mut columns, is_over)?;
    // A chat has both tables or neither.
    for (one, other) in [(Table::Blobs, Table::Meta), (Table::Meta, Table::Blobs)] {
        if columns.contains_key(&one) {
            columns.entry(other).or_default();
        }
    }
    let mut tables = Vec::new();
    for table in Table::ALL {
        match columns.get(&table) {
            Some(columns) => {
                make_readable(connection, table, columns)?;
                tables.push(table);
            }
            None => connection.execute_batch(&format!("DROP TABLE \"{}\"", table.name()))?,
        }
    }
    find_lost(connection, pages, &free, &tables)
}

/// Returns the pages on the free list, except those that an interior page refers to: a flipped bit may put any page on
/// the list.
fn free_pages(pages: &PageFile) -> rusqlite::Result<HashSet<u32>> {
    let mut free = pages.free_pages();
    let mut used = Vec::new();
    if !free.is_empty() {
        pages.visit(&free, &mut |number, page| {
            used.extend(children(page, number, pages.n_pages()).unwrap_or_default());
            Ok(())
        })?;
    }
    for page in used {
        free.remove(&page);
    }
    Ok(free)
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

/// Records every row on the pages that are not free.
fn note_rows(
    connection: &Connection,
    pages: &PageFile,
    free: &HashSet<u32>,
    columns: &mut HashMap<Table, Columns>,
    is_over: &dyn Fn() -> bool,
) -> rusqlite::Result<()> {
    // A page may continue one row, and by mistake a second one. This limit keeps the result from growing much larger
    // than the file.
    let mut n_owners = vec![0_u8; pages.n_pages() as usize + 1];
    let mut note = |cell: &Cell| {
        let n_there = pages.follow(cell.place.n_bytes, cell.continued, &mut |page| {
            let n_owners = &mut n_owners[page as usize];
            *n_owners = n_owners.saturating_add(1);
            *n_owners <= 2
        });
        let columns = columns.entry(cell.table).or_default();
        columns.n_most = columns.n_most.max(cell.n_columns);
        note_row(connection, cell, n_there)
    };
    let mut damaged = Vec::new();
    pages.visit(free, &mut |number, page| {
        if is_over() {
            return Err(interrupted());
        }
        let (carved, led_to): (Vec<Cell>, Vec<Cell>) =
            cells(page, number, pages.n_pages()).partition(|cell| cell.is_carved);
        if !carved.is_empty() {
            damaged.push(number);
        }
        led_to.iter().try_for_each(&mut note)
    })?;
    // Rows without a pointer come last: they may be leftovers, and must not take another row's number.
    let mut page = Vec::new();
    for number in damaged {
        if pages.read(number, &mut page).is_ok() {
            let mut carved = cells(&page, number, pages.n_pages()).filter(|cell| cell.is_carved);
            carved.try_for_each(|cell| note(&cell))?;
        }
    }
    Ok(())
}

fn note_row(connection: &Connection, cell: &Cell, n_there: usize) -> rusqlite::Result<()> {
    let Cell { table, rowid, place, is_carved, .. } = cell;
    let sql = format!(
        "INSERT OR IGNORE INTO \"{}\" (rowid, {PLACE}, {IS_DOUBTFUL}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        table.name()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let sizes = [place.at, place.n_bytes, n_there];
    let [at, n_bytes, n_there] = sizes.map(|size| i64::try_from(size).unwrap_or(i64::MAX));
    let mut note = |rowid: Option<i64>, is_doubtful: bool| {
        statement.execute((rowid, place.page, at, n_bytes, n_there, is_doubtful))
    };
    // If another row has the same number, SQLite assigns a new one.
    if note(Some(*rowid), *is_carved)? == 0 {
        note(None, true)?;
    }
    Ok(())
}

/// Gives a table the columns and indexes of Cursor's table. If a row appears twice, for example as a leftover, keeps
/// only one: complete rather than cut, with a pointer rather than without, later rather than earlier.
fn make_readable(connection: &Connection, table: Table, columns: &Columns) -> rusqlite::Result<()> {
    let name = table.name();
    let usual = || table.usual_columns(columns.n_most).into_iter().map(str::to_owned).collect();
    let names: Vec<String> = columns.named.clone().unwrap_or_else(usual);
    for (place, column) in names.iter().enumerate() {
        connection.execute_batch(&format!(
            "ALTER TABLE \"{name}\" ADD COLUMN \"{column}\" AS (cell({PLACE}, {place}))"
        ))?;
    }
    for (number, key) in table.indexes().iter().enumerate() {
        if key.iter().all(|column| names.iter().any(|name| name == column)) {
            let columns = key.join(", ");
            let sql = format!("CREATE INDEX \"{name} {number}\" ON \"{name}\" ({columns})");
            connection.execute_batch(&sql)?;
        }
    }
    let key = table.key().join(", ");
    // Cursor only ever adds events, so a row with a pointer is never a leftover.
    let is_in_question = if table == Table::RunEvents { IS_DOUBTFUL } else { "true" };
    connection.execute_batch(&format!(
        "DELETE FROM \"{name}\" WHERE {is_in_question} AND rowid IN (
            SELECT rowid FROM (
                SELECT rowid, row_number() OVER (
                    PARTITION BY {key} ORDER BY {IS_WHOLE} DESC, {IS_DOUBTFUL}, rowid DESC
                ) AS place FROM \"{name}\" WHERE ({key}) IN (
                    SELECT {key} FROM \"{name}\" GROUP BY {key} HAVING count(*) > 1
                )
            ) WHERE place > 1
         )"
    ))
}

fn interrupted() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}
