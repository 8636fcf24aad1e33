//! What is left of a damaged database, gathered from its pages.
//!
//! SQLite finds a row by way of others: the schema leads to a tree of pages, an index to a row of it. One bit that flipped
//! on that way hides everything behind it. The rows themselves stand where they stood, and each says by itself how long it
//! is and what of. So every page is looked at, and what looks like a row of Cursor's is taken for one:
//!
//! ```text
//! file, log ──► pages ──► rows that hold together ──► a database of ours, in memory: the same tables, with indexes
//!               (none is   (found by the head of        of its own, of which every column says where in Cursor's
//!                skipped)   their page, or without)     file it stands; it is read there when it is asked for
//! ```
//!
//! **Invariant:** nothing but keys is kept here. Values, credentials among them, are read only when somebody asks.

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
pub(crate) use known::{is_sound, mended, note, note_sound};
use page_file::PageFile;

use crate::plain_file::PlainFileError;

/// How many pages are looked at before a file whose header is garbage counts as a database.
const SAMPLE: u32 = 64;

/// A database of ours that says where the rows of another stand. It is in memory and goes with the last who uses it.
#[derive(Debug)]
pub(crate) struct MendedDatabase {
    pages: Arc<PageFile>,
    uri: String,
    lost: Lost,
    /// Holds it in memory.
    _keeper: Mutex<Connection>,
}

/// What is known to be missing.
#[derive(Debug, Default)]
struct Lost {
    /// By key; of two columns, with a slash between.
    rows: BTreeMap<String, Loss>,
    /// Whether nothing else can be.
    is_all_known: bool,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Only an index knows its name.
    Gone,
    /// Its end is not where it should be.
    Cut,
}

/// Says why what is left of a database could not be gathered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MendError {
    #[error("the database is damaged, and its file cannot be read")]
    File(#[from] PlainFileError),
    #[error("the database is damaged, and what is left of it cannot be gathered")]
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

/// Tells whether there are rows of Cursor's in a file that does not begin as a database does.
pub(crate) fn has_rows(path: &Path) -> bool {
    let Ok(pages) = PageFile::open(path) else { return false };
    let n_pages = pages.n_pages();
    let step = (n_pages / SAMPLE).max(1);
    let mut page = Vec::new();
    (1..=n_pages).step_by(step as usize).any(|number| {
        pages.read(number, &mut page).is_ok() && cells(&page, number, n_pages).next().is_some()
    })
}

impl MendedDatabase {
    /// Looks at every page.
    fn of(path: &Path) -> Result<Self, MendError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let uri = format!("file:/mended-{number}?vfs=memdb");
        let pages = Arc::new(PageFile::open(path)?);
        let mode = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(&uri, &pages, mode)?;
        let lost = gather::gather(&mut connection, &pages)?;
        Ok(Self { pages, uri, lost, _keeper: Mutex::new(connection) })
    }

    /// Tells whether the log is still the one in which rows were found.
    pub(crate) fn has_same_log(&self) -> bool {
        self.pages.has_same_log()
    }

    /// Opens it for reading.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        connect(&self.uri, &self.pages, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    /// The rows of these keys that are known to be missing, or cut.
    pub(crate) fn lost(&self, keys: Range<&str>) -> impl Iterator<Item = (&str, Loss)> {
        let (start, end) = (Bound::Included(keys.start), Bound::Excluded(keys.end));
        // A range that ends before it begins has nothing in it.
        let is_sound = keys.start < keys.end;
        let lost = is_sound.then(|| self.lost.rows.range::<str, _>((start, end)));
        lost.into_iter().flatten().map(|(key, loss)| (key.as_str(), *loss))
    }

    /// Tells whether there can be no lost rows but those.
    pub(crate) fn is_all_lost_known(&self) -> bool {
        self.lost.is_all_known
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a database of ours, in memory: the other one that this crate opens"
)]
fn connect(uri: &str, pages: &Arc<PageFile>, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = mode | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    add_cell_function(&connection, Arc::clone(pages))?;
    Ok(connection)
}

/// A page of a file, whatever it is of.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_page(bytes: &[u8]) {
    // No database has smaller ones.
    let mut page = bytes.to_vec();
    page.resize(bytes.len().next_power_of_two().clamp(512, 65_536), 0);
    for number in [1, 2] {
        let n_bytes: usize = cells(&page, number, 10)
            .map(|cell| crate::record_format::local_length(cell.place.n_bytes, page.len()))
            .sum();
        assert!(n_bytes <= page.len(), "rows overlap");
        drop(cells::index_keys(&page, number));
    }
    cells::visit_schema(&page, &mut |row| drop(tables::columns_of_schema(row)));
}

#[cfg(test)]
#[path = "mending_tests.rs"]
mod tests;
