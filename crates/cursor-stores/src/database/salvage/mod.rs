//! Salvages a damaged database from its pages.
//!
//! SQLite finds a row through other pages: the schema leads to a tree of pages, and an index to a row in it. One
//! flipped bit on the way hides everything behind it. The rows themselves are still there, and each states its own
//! length and types. So this module looks at every page, and takes everything that looks like one of Cursor's rows:
//!
//! ```text
//! file, log ──► pages ──► intact rows ──────────► our own database in memory: the same tables, with its own
//!               (none is   (found by the pointers   indexes. A column says where its value is in Cursor's
//!                skipped)   of a page, or without)   file. The value is read there when a query asks for it.
//! ```
//!
//! **Invariant:** this database keeps only keys. Values may be credentials, so it reads them only for a query.

mod cell_function;
mod cells;
mod gather;
mod known;
mod log_pages;
mod lost_rows;
mod page_file;
mod tables;

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OpenFlags};

use cell_function::add_cell_function;
use cells::cells;
pub(crate) use known::{is_sound, note, note_sound, salvaged};
use page_file::PageFile;
pub(crate) use tables::Table;

use crate::plain_file::PlainFileError;

/// About how many pages of a file with a bad header to check for Cursor's rows.
const SAMPLE: u32 = 64;

/// Our own database, which says where another database's rows are. It is in memory until its last user drops it.
#[derive(Debug)]
pub(crate) struct SalvagedDatabase {
    pages: Arc<PageFile>,
    uri: String,
    lost: Lost,
    /// Keeps the database in memory.
    _keeper: Mutex<Connection>,
}

/// The rows known to be lost.
#[derive(Debug, Default)]
struct Lost {
    /// By key. Keys from two columns have a slash between them.
    rows: BTreeMap<String, Loss>,
    /// True if no other row can be lost.
    is_all_known: bool,
}

/// The fate of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Only an index still names it.
    Gone,
    /// Its end is missing.
    Cut,
}

/// Says why a damaged database could not be salvaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    #[error("the database is damaged, and its file cannot be read")]
    File(#[from] PlainFileError),
    #[error("the database is damaged, and cannot be salvaged")]
    Sqlite(#[from] rusqlite::Error),
}

impl Loss {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Gone => "the row is on a damaged page of the database",
            Self::Cut => "only the beginning of the row is left",
        }
    }
}

/// True if a file that does not begin like a database still holds Cursor's rows.
pub(crate) fn has_rows(path: &Path) -> bool {
    let Ok(pages) = PageFile::open(path) else { return false };
    let n_pages = pages.n_pages();
    let step = (n_pages / SAMPLE).max(1);
    let mut page = Vec::new();
    (1..=n_pages).step_by(step as usize).any(|number| {
        pages.read(number, &mut page).is_ok() && cells(&page, number, n_pages).next().is_some()
    })
}

impl SalvagedDatabase {
    /// Looks at every page.
    fn of(path: &Path) -> Result<Self, SalvageError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let uri = format!("file:/salvaged-{number}?vfs=memdb");
        let pages = Arc::new(PageFile::open(path)?);
        let mode = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(&uri, &pages, mode)?;
        let lost = gather::gather(&mut connection, &pages)?;
        Ok(Self { pages, uri, lost, _keeper: Mutex::new(connection) })
    }

    /// True if the log is still the one where the rows were found.
    pub(crate) fn has_same_log(&self) -> bool {
        self.pages.has_same_log()
    }

    /// Opens the salvaged database for reading.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        connect(&self.uri, &self.pages, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    /// Returns the lost or cut rows with these keys.
    pub(crate) fn lost(&self, keys: Range<&str>) -> impl Iterator<Item = (&str, Loss)> {
        let (start, end) = (Bound::Included(keys.start), Bound::Excluded(keys.end));
        // A range that ends before it begins is empty.
        let is_sound = keys.start < keys.end;
        let lost = is_sound.then(|| self.lost.rows.range::<str, _>((start, end)));
        lost.into_iter().flatten().map(|(key, loss)| (key.as_str(), *loss))
    }

    /// True if [`Self::lost`] names every lost row.
    pub(crate) fn is_all_lost_known(&self) -> bool {
        self.lost.is_all_known
    }
}

#[expect(clippy::disallowed_methods, reason = "our own database, in memory")]
fn connect(uri: &str, pages: &Arc<PageFile>, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = mode | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    add_cell_function(&connection, Arc::clone(pages))?;
    Ok(connection)
}

/// Reads arbitrary bytes as a page.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_page(bytes: &[u8]) {
    // No database has smaller pages.
    let mut page = bytes.to_vec();
    page.resize(bytes.len().next_power_of_two().clamp(512, 65_536), 0);
    for number in [1, 2] {
        let n_bytes: usize = cells(&page, number, 10)
            .map(|cell| {
                crate::database::record_format::local_length(cell.place.n_bytes, page.len())
            })
            .sum();
        assert!(n_bytes <= page.len(), "rows overlap");
        drop(cells::index_keys(&page, number));
    }
    cells::visit_schema(&page, &mut |row| drop(tables::columns_of_schema(row)));
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
