//! The one place that opens a database of Cursor's: read-only, and without leaving a trace where that is possible.
//!
//! ```text
//!                      -wal or -journal has bytes?
//!            no: nobody writes │ yes: live, or its writer was killed
//!          immutable=1         │         mode=ro
//!   takes no lock, makes no    │  sees what is only in the log; may make or change
//!   file; every read is        │  -shm, which belongs to readers
//!   followed by a new stat     │
//!                              │ -shm cannot be made there:
//!                              │   a copy of database and log, or, if it is too large,
//!                              │   immutable=1 without the log, which is told
//! ```
//!
//! A file that is shorter than its header says, or whose schema is damaged in parts, is one that SQLite reads nothing of
//! unless it is told to take what is there. It is told so, and that something is missing is known of all that is read.
//!
//! Every read ends: what takes longer than any honest query is interrupted, because a crafted tree of pages can have
//! more rows than there are atoms.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::damaged_rows::{Rows, Way, WayEnd, find_islands};
use crate::database_copy::DatabaseCopy;
use crate::lock_patience;
use crate::plain_file::{self, PlainFileError};

/// Between the examination of the files and the opening of the database its writer may start or stop.
const OPEN_ATTEMPTS: usize = 3;
/// Longer than any honest query takes, on the slowest disk.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// How often a running query looks at the clock; about a tenth of a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// An open database of somebody else's, inside one read transaction: all reads see the same state.
#[derive(Debug)]
pub(crate) struct ReadOnlyDatabase {
    connection: Connection,
    path: PathBuf,
    access: Access,
    completeness: Completeness,
    fingerprint: DatabaseFingerprint,
    deadline: Arc<Deadline>,
    /// By table.
    islands: RefCell<HashMap<&'static str, Vec<Rows>>>,
    /// Deleted with the connection.
    _copy: Option<Arc<DatabaseCopy>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Opened as if on read-only media; consistent as long as the files are as they were.
    Immutable,
    /// Opened with locks, beside a log that has content.
    Live,
    /// A copy of our own of database and log.
    Copied,
    /// Opened without its log, because there was no other way.
    WithoutLog,
}

/// Whether SQLite takes the file for a whole one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Whole,
    /// Cut off somewhere, or with a schema that is not what it was.
    InPart,
}

/// Until when the read that is under way may go on.
#[derive(Debug)]
struct Deadline {
    begun: Instant,
    /// Milliseconds since `begun`.
    at_ms: AtomicU64,
}

impl Deadline {
    fn new() -> Self {
        Self { begun: Instant::now(), at_ms: AtomicU64::new(u64::MAX) }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn set(&self, limit: Duration) {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.at_ms.store(self.now_ms().saturating_add(limit_ms), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.now_ms() > self.at_ms.load(Ordering::Relaxed)
    }
}

/// What identifies the content of a database without reading it: its file and its logs, but not `-shm`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseFingerprint {
    main: FileStamp,
    wal: Option<FileStamp>,
    journal: Option<FileStamp>,
}

/// Without the time of the last status change: SQLite, as root, sets the owner of a log even when it only reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Says why a database was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDatabaseError {
    #[error("the database is not a file that can be opened")]
    File(#[from] PlainFileError),
    #[error("the database file is empty")]
    Empty,
    #[error("the file is not an SQLite database")]
    NotADatabase,
    /// As long as others may be waited for.
    #[error("the database is locked by another process")]
    Locked,
    #[error("the database kept changing while it was opened")]
    Changing,
    #[error("the database could not be opened")]
    Sqlite(#[from] rusqlite::Error),
}

/// Says why reading from an open database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadDatabaseError {
    /// What was read may be torn; open the database again.
    #[error("the database changed while it was read")]
    Changed,
    #[error("the database could not be read")]
    Sqlite(#[from] rusqlite::Error),
}

impl ReadDatabaseError {
    /// Tells whether a part of the file is damaged, as opposed to locked, changed or out of reach.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Sqlite(err) if is_damage(err))
    }
}

/// As [`ReadDatabaseError::is_damage`]. A read that had to be interrupted met pages that no writer leaves.
pub(crate) fn is_damage(err: &rusqlite::Error) -> bool {
    matches!(
        err.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::OperationInterrupted)
    )
}

impl DatabaseFingerprint {
    /// Examines the files; refuses if one of them is not a plain file, so that none can hang or mislead SQLite.
    pub fn of(path: &Path) -> Result<Self, PlainFileError> {
        let sibling = |suffix: &str| match plain_file::inspect(&with_suffix(path, suffix)) {
            Ok(metadata) => Ok(Some(FileStamp::of(&metadata))),
            Err(PlainFileError::Missing { .. }) => Ok(None),
            Err(err) => Err(err),
        };
        let main = FileStamp::of(&plain_file::inspect(path)?);
        sibling("-shm")?;
        Ok(Self { main, wal: sibling("-wal")?, journal: sibling("-journal")? })
    }

    /// Tells whether there is a log with content, without which the main file alone may be incomplete or torn.
    fn has_log(&self) -> bool {
        [&self.wal, &self.journal].into_iter().flatten().any(|log| log.bytes > 0)
    }

    /// Tells whether there is a log that has to be rolled back before the main file can be read.
    pub(crate) fn has_journal(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.bytes > 0)
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        self.main.bytes.saturating_add(self.wal.as_ref().map_or(0, |wal| wal.bytes))
    }
}

impl FileStamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl ReadOnlyDatabase {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        let path = resolve_parent(path)?;
        for _ in 0..OPEN_ATTEMPTS {
            let fingerprint = DatabaseFingerprint::of(&path)?;
            if let Err(err) = check_header(&path, &fingerprint) {
                match err {
                    OpenDatabaseError::File(PlainFileError::Replaced { .. }) => continue,
                    err => return Err(err),
                }
            }
            let access = if fingerprint.has_log() { Access::Live } else { Access::Immutable };
            match Self::begin_or_salvage(&path, access, &fingerprint, None) {
                Ok(database) => return Ok(database),
                Err(ReadDatabaseError::Changed) => {}
                Err(ReadDatabaseError::Sqlite(err))
                    if access == Access::Live && lacks_shm(&err) =>
                {
                    return Self::open_without_shm(&path, &fingerprint);
                }
                Err(ReadDatabaseError::Sqlite(err)) => return Err(classify(err)),
            }
        }
        Err(OpenDatabaseError::Changing)
    }

    /// As [`Self::begin`]; what is not whole is taken as it is.
    fn begin_or_salvage(
        path: &Path,
        access: Access,
        fingerprint: &DatabaseFingerprint,
        copy: Option<&Arc<DatabaseCopy>>,
    ) -> Result<Self, ReadDatabaseError> {
        let begin = |completeness| {
            Self::begin(path, access, completeness, fingerprint, copy.map(Arc::clone))
        };
        match begin(Completeness::Whole) {
            // What is wrong is what was wrong at first, if there is nothing that can be taken.
            Err(err) if err.is_damage() => begin(Completeness::InPart).map_err(|_| err),
            other => other,
        }
    }

    /// Opens a connection and takes the snapshot that all reads see.
    fn begin(
        path: &Path,
        access: Access,
        completeness: Completeness,
        fingerprint: &DatabaseFingerprint,
        copy: Option<Arc<DatabaseCopy>>,
    ) -> Result<Self, ReadDatabaseError> {
        let opened = copy.as_ref().map_or(path, |copy| copy.path());
        let mut connection = connect(opened, access)?;
        let deadline = Arc::new(Deadline::new());
        let watch = Arc::clone(&deadline);
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || watch.is_over()))?;
        let database = Self {
            connection,
            path: path.to_owned(),
            access,
            completeness,
            fingerprint: fingerprint.clone(),
            deadline,
            islands: RefCell::default(),
            _copy: copy,
        };
        let begun = Instant::now();
        let taken = database.read(|connection| {
            if completeness == Completeness::InPart {
                // Nothing becomes writable by that; it only keeps SQLite from refusing the file as a whole.
                connection.execute_batch("PRAGMA writable_schema = ON")?;
            }
            connection.execute_batch(
                "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; BEGIN",
            )?;
            // Not `count(*)`, which counts pages without a look at the clock.
            connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()
        });
        if let Err(ReadDatabaseError::Sqlite(err)) = &taken
            && err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
        {
            lock_patience::spend(begun.elapsed());
        }
        taken?;
        Ok(database)
    }

    /// Where the index of the log cannot be made, as on read-only media: a copy has one, and what is too large to be
    /// copied is read without its log.
    fn open_without_shm(
        path: &Path,
        fingerprint: &DatabaseFingerprint,
    ) -> Result<Self, OpenDatabaseError> {
        let (access, copy) = match DatabaseCopy::of(path)? {
            Some(copy) => (Access::Copied, Some(Arc::new(copy))),
            None => (Access::WithoutLog, None),
        };
        Self::begin_or_salvage(path, access, fingerprint, copy.as_ref()).map_err(|err| match err {
            ReadDatabaseError::Changed => OpenDatabaseError::Changing,
            ReadDatabaseError::Sqlite(err) => classify(err),
        })
    }

    /// Tells whether SQLite would refuse the file as it is.
    pub(crate) fn is_in_part(&self) -> bool {
        self.completeness == Completeness::InPart
    }

    /// Says what is missing from all that is read here, if something is.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        match self.completeness {
            Completeness::Whole => self.missing_log(),
            Completeness::InPart => Some(
                "the file is cut off, or damaged where it says what it holds; what is left is shown",
            ),
        }
    }

    /// As [`Self::shortcoming`], of the log alone.
    pub(crate) fn missing_log(&self) -> Option<&'static str> {
        match self.access {
            Access::Immutable | Access::Live | Access::Copied => None,
            Access::WithoutLog => Some(
                "its log cannot be read where it lies, so that what was written last may be missing",
            ),
        }
    }

    /// Runs one read, and fails if the files under an unlocked database are not what they were.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.read_within(READ_LIMIT, query)
    }

    /// As [`Self::read`], interrupted after `limit`, which counts as damage.
    pub(crate) fn read_within<T>(
        &self,
        limit: Duration,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.deadline.set(limit);
        let answer = query(&self.connection);
        match self.access {
            Access::Immutable | Access::WithoutLog if !self.is_unchanged() => {
                Err(ReadDatabaseError::Changed)
            }
            Access::Immutable | Access::Live | Access::Copied | Access::WithoutLog => Ok(answer?),
        }
    }

    /// Returns where rows of a table can be read by their numbers, in their order. Found out once, because it takes a
    /// while: asked for only when something was found to be damaged.
    pub(crate) fn islands(&self, table: &'static str) -> Result<Vec<Rows>, ReadDatabaseError> {
        if let Some(known) = self.islands.borrow().get(table) {
            return Ok(known.clone());
        }
        let found = self.read(|connection| {
            find_islands(&mut |rows, direction| {
                let sql = format!(
                    "SELECT rowid FROM {table} NOT INDEXED WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid {}",
                    direction.order()
                );
                let mut way = Way { last: None, end: WayEnd::Reached };
                let mut statement = connection.prepare_cached(&sql)?;
                let mut numbers = statement.query([rows.after, rows.until])?;
                loop {
                    match numbers.next() {
                        Ok(Some(row)) => way.last = Some(row.get(0)?),
                        Ok(None) => return Ok(way),
                        Err(err) if is_damage(&err) => {
                            return Ok(Way { end: WayEnd::Damaged, ..way });
                        }
                        Err(err) => return Err(err),
                    }
                }
            })
        })?;
        self.islands.borrow_mut().insert(table, found.clone());
        Ok(found)
    }

    fn is_unchanged(&self) -> bool {
        DatabaseFingerprint::of(&self.path).is_ok_and(|now| now == self.fingerprint)
    }

    /// Tells whether `table` is an ordinary table that stores `columns`, as opposed to a view or a virtual table,
    /// behind which a hostile file may hide an endless computation.
    pub(crate) fn has_plain_table(
        &self,
        table: &str,
        columns: [&str; 2],
    ) -> Result<bool, ReadDatabaseError> {
        self.read(|connection| {
            let is_table: bool = connection.query_row(
                "SELECT count(*) FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND rootpage > 0",
                [table],
                |row| row.get(0),
            )?;
            let n_columns: u32 = connection.query_row(
                "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden = 0 AND name IN (?2, ?3)",
                [table, columns[0], columns[1]],
                |row| row.get(0),
            )?;
            Ok(is_table && n_columns == 2)
        })
    }
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Resolves everything but the last component, because SQLite is told to follow no link at all.
fn resolve_parent(path: &Path) -> Result<PathBuf, PlainFileError> {
    let Some(name) = path.file_name() else {
        return Err(PlainFileError::NotPlain { path: path.to_owned(), kind: "directory" });
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent = fs::canonicalize(parent).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => PlainFileError::Missing { path: path.to_owned() },
        _ => PlainFileError::Read { path: path.to_owned(), source },
    })?;
    Ok(parent.join(name))
}

/// SQLite takes an empty file for a new database, and finds out about garbage only later.
fn check_header(path: &Path, fingerprint: &DatabaseFingerprint) -> Result<(), OpenDatabaseError> {
    if fingerprint.main.bytes == 0 {
        return Err(OpenDatabaseError::Empty);
    }
    let mut magic = Vec::new();
    plain_file::open(path)?
        .take(MAGIC.len() as u64)
        .read_to_end(&mut magic)
        .map_err(|source| PlainFileError::Read { path: path.to_owned(), source })?;
    if magic == MAGIC { Ok(()) } else { Err(OpenDatabaseError::NotADatabase) }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that opens a database, always read-only"
)]
fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let mode = match access {
        Access::Immutable | Access::WithoutLog => "immutable=1",
        Access::Live | Access::Copied => "mode=ro",
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file_uri(path, mode), flags)?;
    connection.busy_timeout(lock_patience::allowance())?;
    // Else a statement is prepared anew for every value that is bound to it, in case another plan is better.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Writes a path of any bytes as a URI, so that no character of it is taken for a parameter.
fn file_uri(path: &Path, parameters: &str) -> String {
    use std::fmt::Write;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte))
            }
            // Writing to a string cannot fail.
            byte => write!(uri, "%{byte:02x}").unwrap_or_default(),
        }
    }
    uri + "?" + parameters
}

/// Tells whether SQLite failed because it could not make, or not write, the index of a log.
fn lacks_shm(err: &rusqlite::Error) -> bool {
    matches!(err.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn classify(err: rusqlite::Error) -> OpenDatabaseError {
    match err.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenDatabaseError::NotADatabase,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenDatabaseError::Locked,
        _ => OpenDatabaseError::Sqlite(err),
    }
}

#[cfg(test)]
#[path = "read_only_database_tests.rs"]
mod tests;
