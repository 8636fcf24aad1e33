//! The only code that opens Cursor's databases: read-only, and if possible without leaving a trace.
//!
//! ```text
//!                      -wal or -journal has bytes?
//!            no: no writer     │ yes
//!          immutable=1         │ a process has it open for writing?
//!   takes no lock, creates no  │ no: its writer was killed │ yes: live
//!   file; every read is        │ vfs=unix-none             │ mode=ro
//!   followed by a new stat     │ no lock, no file: the     │ also sees rows that are only in the log; may create
//!                              │ index of the log is in    │ or change -shm, which all readers share
//!                              │ memory; every read is     │   if it cannot create -shm: a copy of database
//!                              │ followed by a new stat    │   and log, or, if that is too large, immutable=1
//!                              │                           │   without the log, and the reader says so
//! ```
//!
//! A rollback journal (`-journal`) always counts as live: only SQLite's locks tell whether it is hot.
//!
//! If SQLite finds damage, the read fails as if the file had changed. When the reader starts again, it gets the
//! salvaged database (see [`super::salvage`]), and learns that something may be missing. A reader that must see the
//! file as Cursor does opens it strictly. Then damage is an error.
//!
//! Every read ends. A read that takes longer than any real query is interrupted, because a crafted tree of pages can
//! have more rows than there are atoms in the universe.

use std::fs;
use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row};

use super::again::ATTEMPTS;
use super::copy::DatabaseCopy;
use super::error::{OpenDatabaseError, ReadDatabaseError};
use super::fingerprint::DatabaseFingerprint;
use super::holders::is_open_for_writing;
use super::lock_patience;
use super::salvage::{self, Loss, SalvagedDatabase};
use crate::plain_file::{self, PlainFileError};

/// Longer than any real query takes on the slowest disk.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// A running query checks the time this often: about every tenth of a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Takes a row of a query, and says whether to continue.
pub(crate) type VisitRow<'v> = dyn FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>> + 'v;

/// An open database that another program owns, in one read transaction: all reads see the same state.
#[derive(Debug)]
pub(crate) struct ReadOnlyDatabase {
    connection: Connection,
    path: PathBuf,
    access: Access,
    tolerance: Tolerance,
    fingerprint: DatabaseFingerprint,
    deadline: Arc<Deadline>,
    /// The database behind the connection, if it is not the original file.
    stand_in: StandIn,
}

/// Lives as long as the connection.
#[derive(Debug)]
enum StandIn {
    Nothing,
    Copy(DatabaseCopy),
    Salvaged(Arc<SalvagedDatabase>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Opened as if on read-only media. Consistent while the files do not change.
    Immutable,
    /// Opened without locks, next to a log that a killed writer left. Consistent while the files do not change.
    Abandoned,
    /// Opened with locks, next to a log that has content.
    Live,
    /// Our own copy of the database and its log.
    Copied,
    /// Opened without its log, because nothing else worked.
    WithoutLog,
    /// Salvaged from a damaged file.
    Salvaged,
}

/// How to react if the file is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tolerance {
    /// Read the salvaged database.
    Salvage,
    /// Report an error.
    Nothing,
}

/// The time limit of the current read.
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

impl ReadOnlyDatabase {
    /// Opens a database. If it is known to be damaged, opens the salvaged one.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        Self::open_with(path, Tolerance::Salvage)
    }

    /// Opens a database as Cursor would, without reading around damage.
    pub(crate) fn open_strictly(path: &Path) -> Result<Self, OpenDatabaseError> {
        Self::open_with(path, Tolerance::Nothing)
    }

    fn open_with(path: &Path, tolerance: Tolerance) -> Result<Self, OpenDatabaseError> {
        let path = resolve_parent(path)?;
        // The writer may start or stop after we examined the files and before we open the database.
        for _ in 0..ATTEMPTS {
            let fingerprint = DatabaseFingerprint::of(&path)?;
            let opening = Opening { path: &path, tolerance, fingerprint: &fingerprint };
            match opening.check_header() {
                Err(OpenDatabaseError::File(PlainFileError::Replaced { .. })) => continue,
                checked => checked?,
            }
            if tolerance == Tolerance::Salvage
                && let Some(salvaged) = salvage::salvaged(&path, &fingerprint)?
            {
                match opening.begin(Access::Salvaged, StandIn::Salvaged(salvaged)) {
                    Err(ReadDatabaseError::Changed) => continue,
                    opened => return opened.map_err(ReadDatabaseError::of_opening),
                }
            }
            let access = access_to(&path, &fingerprint);
            match opening.begin(access, StandIn::Nothing) {
                Err(ReadDatabaseError::Changed) => {}
                Err(ReadDatabaseError::Sqlite(err))
                    if access != Access::Immutable && lacks_shm(&err) =>
                {
                    match opening.without_shm() {
                        Err(OpenDatabaseError::Changing) => {}
                        opened => return opened,
                    }
                }
                opened => return opened.map_err(ReadDatabaseError::of_opening),
            }
        }
        Err(OpenDatabaseError::Changing)
    }

    /// Returns the salvaged database, if this is one.
    fn salvaged(&self) -> Option<&SalvagedDatabase> {
        match &self.stand_in {
            StandIn::Salvaged(salvaged) => Some(salvaged),
            StandIn::Nothing | StandIn::Copy(_) => None,
        }
    }

    /// True if this was salvaged from a damaged database.
    pub(crate) fn is_salvaged(&self) -> bool {
        self.salvaged().is_some()
    }

    /// Returns the lost or cut rows with these keys.
    pub(crate) fn lost(&self, keys: Range<&str>) -> impl Iterator<Item = (&str, Loss)> {
        self.salvaged().into_iter().flat_map(move |salvaged| salvaged.lost(keys.clone()))
    }

    /// True if [`Self::lost`] names every lost row.
    pub(crate) fn is_all_lost_known(&self) -> bool {
        self.salvaged().is_none_or(SalvagedDatabase::is_all_lost_known)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fingerprint(&self) -> &DatabaseFingerprint {
        &self.fingerprint
    }

    /// Records the damage, and returns the error that makes the reader start again. Contradictions count as damage,
    /// unless another process just wrote to the files.
    pub(crate) fn start_again(&self) -> ReadDatabaseError {
        if self.is_of_one_moment() {
            salvage::note(&self.path, &self.fingerprint);
        }
        ReadDatabaseError::Changed
    }

    /// Says why reads may be incomplete.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        if self.is_salvaged() {
            Some("the file is damaged; showing the rows that could be salvaged")
        } else {
            self.missing_log()
        }
    }

    /// Like [`Self::shortcoming`], but only about the log.
    pub(crate) fn missing_log(&self) -> Option<&'static str> {
        match self.access {
            Access::Immutable
            | Access::Abandoned
            | Access::Live
            | Access::Copied
            | Access::Salvaged => None,
            Access::WithoutLog => {
                Some("its log cannot be read there, so the latest writes may be missing")
            }
        }
    }

    /// Runs one read. Fails if the files of an unlocked database changed.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.read_within(READ_LIMIT, query)
    }

    /// Like [`Self::read`], but interrupted after `limit`. An interruption counts as damage.
    pub(crate) fn read_within<T>(
        &self,
        limit: Duration,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadDatabaseError> {
        self.deadline.set(limit);
        let answer = query(&self.connection);
        match (self.access, answer) {
            (Access::Immutable | Access::Abandoned | Access::WithoutLog | Access::Salvaged, _)
                if !self.is_of_one_moment() =>
            {
                Err(ReadDatabaseError::Changed)
            }
            (access, Err(err))
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
                    && access != Access::Salvaged
                    && self.tolerance == Tolerance::Salvage =>
            {
                Err(self.start_again())
            }
            (_, answer) => Ok(answer?),
        }
    }

    /// Calls `visit` with each row of a query, until it returns `Break`.
    pub(crate) fn visit_rows(
        &self,
        sql: &str,
        params: impl Params,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if visit(row)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Returns the result of a counting query.
    pub(crate) fn count(&self, sql: &str, params: impl Params) -> Result<u64, ReadDatabaseError> {
        self.read(|connection| {
            let count = connection.prepare_cached(sql)?.query_row(params, |row| row.get(0));
            count.map(|count: i64| u64::try_from(count).unwrap_or(0))
        })
    }

    /// True if all reads saw the same state, as far as the files show.
    fn is_of_one_moment(&self) -> bool {
        let Ok(now) = DatabaseFingerprint::of(&self.path) else { return false };
        match (self.access, &self.stand_in) {
            // A log only grows, until SQLite restarts it.
            (_, StandIn::Salvaged(salvaged)) => {
                now.has_grown_from(&self.fingerprint) && salvaged.has_same_log()
            }
            // SQLite's locks protect the log.
            (Access::Live | Access::Copied, _) => now.has_same_main(&self.fingerprint),
            _ => now == self.fingerprint,
        }
    }

    /// Returns the columns of an ordinary table. Empty if there is no such table. Ignores views and virtual tables,
    /// where a hostile file may hide an endless computation.
    pub(crate) fn stored_columns(&self, table: &str) -> Result<Vec<String>, ReadDatabaseError> {
        self.read(|connection| {
            // Computed columns are ours in a salvaged database, and hostile in any other.
            let hidden = if self.is_salvaged() { 2 } else { 0 };
            let sql = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = ?2 AND EXISTS ( \
                       SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND rootpage > 0)";
            let mut statement = connection.prepare(sql)?;
            let name = |row: &Row<'_>| {
                Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes().unwrap_or_default())
                    .into_owned())
            };
            statement.query_map((table, hidden), name)?.collect()
        })
    }

    /// Like [`Self::stored_columns`], but empty if one of the `always` columns is missing.
    pub(crate) fn columns(
        &self,
        table: &str,
        always: &[&str],
    ) -> Result<Vec<String>, ReadDatabaseError> {
        let names = self.stored_columns(table)?;
        if always.iter().all(|column| names.iter().any(|name| name == column)) {
            Ok(names)
        } else if self.tolerance == Tolerance::Salvage && self.is_schema_damaged(table, always)? {
            Err(self.start_again())
        } else {
            Ok(Vec::new())
        }
    }

    /// True if the schema contradicts itself about a table. A view with that name or a computed column does not count:
    /// a program can create either. SQLite ignores the word that states the type, so a bit may have flipped there while
    /// the rest is right.
    fn is_schema_damaged(&self, table: &str, always: &[&str]) -> Result<bool, ReadDatabaseError> {
        if self.is_salvaged() {
            return Ok(false);
        }
        let is_told = "SELECT count(*) > 0 FROM sqlite_schema \
                       WHERE name = ?1 OR tbl_name = ?1 OR instr(sql, 'TABLE ' || ?1 || ' ') > 0 \
                       OR instr(sql, 'TABLE ' || ?1 || '(') > 0";
        let is_wanted = "SELECT count(*) > 0 FROM sqlite_schema \
                         WHERE name = ?1 AND (type = 'view' OR type = 'table' AND rootpage = 0)";
        let has_kind = "SELECT count(*) > 0 FROM sqlite_schema \
                        WHERE name = ?1 AND type IN ('table', 'index', 'view', 'trigger')";
        let has_column = "SELECT count(*) > 0 FROM pragma_table_xinfo(?1) WHERE name = ?2";
        self.read(|connection| {
            let ask = |sql: &str| connection.query_row(sql, [table], |row| row.get::<_, bool>(0));
            let mut has_all = true;
            for column in always {
                let ask = |row: &Row<'_>| row.get::<_, bool>(0);
                has_all &= connection.query_row(has_column, [table, column], ask)?;
            }
            Ok(ask(is_told)? && !ask(is_wanted)? && !(has_all && ask(has_kind)?))
        })
    }

    /// True if there is an ordinary table with these columns.
    pub(crate) fn has_plain_table(
        &self,
        table: &str,
        columns: [&str; 2],
    ) -> Result<bool, ReadDatabaseError> {
        Ok(!self.columns(table, &columns)?.is_empty())
    }
}

/// A database that is about to be opened.
struct Opening<'a> {
    path: &'a Path,
    tolerance: Tolerance,
    fingerprint: &'a DatabaseFingerprint,
}

impl Opening<'_> {
    /// SQLite treats an empty file as a new database, and notices garbage only later.
    fn check_header(&self) -> Result<(), OpenDatabaseError> {
        if self.fingerprint.is_empty() {
            return Err(OpenDatabaseError::Empty);
        }
        let mut magic = Vec::new();
        plain_file::open(self.path)?
            .take(MAGIC.len() as u64)
            .read_to_end(&mut magic)
            .map_err(|source| PlainFileError::Read { path: self.path.to_owned(), source })?;
        if magic == MAGIC {
            Ok(())
        } else if self.tolerance == Tolerance::Salvage && salvage::has_rows(self.path) {
            salvage::note(self.path, self.fingerprint);
            Ok(())
        } else {
            Err(OpenDatabaseError::NotADatabase)
        }
    }

    /// Opens a connection and takes the snapshot that all reads see.
    fn begin(
        &self,
        access: Access,
        stand_in: StandIn,
    ) -> Result<ReadOnlyDatabase, ReadDatabaseError> {
        let mut connection = match &stand_in {
            StandIn::Nothing => connect(self.path, access)?,
            StandIn::Copy(copy) => connect(copy.path(), access)?,
            StandIn::Salvaged(salvaged) => salvaged.connect()?,
        };
        let deadline = Arc::new(Deadline::new());
        let watch = Arc::clone(&deadline);
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || watch.is_over()))?;
        if access == Access::Abandoned {
            // Without locks, SQLite assumes that it is the last user, and would write the log back and delete it.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            // In exclusive mode, SQLite keeps the index of the log in memory.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        // Otherwise SQLite prepares a statement again for every bound value, in case another plan is better.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let database = ReadOnlyDatabase {
            connection,
            path: self.path.to_owned(),
            access,
            tolerance: self.tolerance,
            fingerprint: self.fingerprint.clone(),
            deadline,
            stand_in,
        };
        let begun = Instant::now();
        let taken = database.read(|connection| {
            connection.execute_batch(
                "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; BEGIN",
            )?;
            // Not `count(*)`, which counts pages without checking the time.
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

    /// Opens a database if SQLite cannot create the index of its log, as on read-only media: from a copy, or without
    /// the log if they are too large to copy.
    fn without_shm(&self) -> Result<ReadOnlyDatabase, OpenDatabaseError> {
        let (access, stand_in) = match DatabaseCopy::of(self.path)? {
            Some(copy) => (Access::Copied, StandIn::Copy(copy)),
            None => (Access::WithoutLog, StandIn::Nothing),
        };
        self.begin(access, stand_in).map_err(ReadDatabaseError::of_opening)
    }
}

/// Decides how to open a database, judging by its files.
fn access_to(path: &Path, fingerprint: &DatabaseFingerprint) -> Access {
    if !fingerprint.has_log() {
        Access::Immutable
    } else if fingerprint.has_journal() || is_open_for_writing(path) {
        Access::Live
    } else {
        Access::Abandoned
    }
}

/// Resolves everything except the last component: SQLite must not follow any link.
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

#[expect(
    clippy::disallowed_methods,
    reason = "the only place in this crate that opens a database, always read-only"
)]
fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let mode = match access {
        Access::Immutable | Access::WithoutLog => "immutable=1",
        Access::Abandoned => "mode=ro&vfs=unix-none",
        Access::Live | Access::Copied | Access::Salvaged => "mode=ro",
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file_uri(path, mode), flags)?;
    connection.busy_timeout(lock_patience::allowance())?;
    Ok(connection)
}

/// Writes a path with any bytes as a URI, so that no character can look like a parameter.
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

/// True if SQLite failed because it could not create or write the index of a log.
fn lacks_shm(err: &rusqlite::Error) -> bool {
    matches!(err.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

#[cfg(test)]
#[path = "read_only_tests.rs"]
mod tests;
