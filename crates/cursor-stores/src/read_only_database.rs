//! The one place that opens a database of Cursor's: read-only, and without leaving a trace where that is possible.
//!
//! ```text
//!                      -wal or -journal has bytes?
//!            no: nobody writes │ yes
//!          immutable=1         │ a process has it open for writing?
//!   takes no lock, makes no    │ no: its writer was killed │ yes: live
//!   file; every read is        │ vfs=unix-none             │ mode=ro
//!   followed by a new stat     │ no lock, no file: the     │ sees what is only in the log; may make or
//!                              │ index of the log is in    │ change -shm, which belongs to all readers
//!                              │ memory; every read is     │   -shm cannot be made there: a copy of database
//!                              │ followed by a new stat    │   and log, or, if it is too large, immutable=1
//!                              │                           │   without the log, and the reader says so
//! ```
//!
//! A rollback journal (`-journal`) always counts as live: only SQLite's locks tell whether it is hot.
//!
//! Where SQLite meets damage, the read fails as if the file had changed: whoever begins anew reads what is left of it,
//! as [`crate::mending`] gathers it, and knows that something may be missing. Who has to see the file as Cursor does
//! opens it unmended, and damage is an error.
//!
//! Every read ends: what takes longer than any honest query is interrupted, because a crafted tree of pages can have
//! more rows than there are atoms.

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row};

use crate::again::ATTEMPTS;
use crate::database_copy::DatabaseCopy;
pub use crate::database_error::{OpenDatabaseError, ReadDatabaseError};
pub(crate) use crate::database_error::{contradiction, is_damage};
use crate::database_fingerprint::DatabaseFingerprint;
use crate::database_holders::is_open_for_writing;
use crate::lock_patience;
use crate::mending::{self, Loss, MendedDatabase};
use crate::plain_file::{self, PlainFileError};

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
    tolerance: Tolerance,
    fingerprint: DatabaseFingerprint,
    deadline: Arc<Deadline>,
    /// Where the connection leads, if it is not to the file itself.
    stand_in: StandIn,
}

/// Gone with the connection.
#[derive(Debug)]
enum StandIn {
    Nothing,
    Copy(DatabaseCopy),
    Mended(Arc<MendedDatabase>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Opened as if on read-only media; consistent as long as the files are as they were.
    Immutable,
    /// Opened without locks, beside a log that a killed writer left; consistent as long as the files are as they were.
    Abandoned,
    /// Opened with locks, beside a log that has content.
    Live,
    /// A copy of our own of database and log.
    Copied,
    /// Opened without its log, because there was no other way.
    WithoutLog,
    /// What is left of a damaged one.
    Mended,
}

/// What is done where SQLite meets damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tolerance {
    /// What is left is read.
    Mending,
    /// It is an error.
    Nothing,
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

impl ReadOnlyDatabase {
    /// Opens a database, or what is left of it if it is known to be damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        Self::open_with(path, Tolerance::Mending)
    }

    /// Opens a database as Cursor would: nothing is read around damage.
    pub(crate) fn open_unmended(path: &Path) -> Result<Self, OpenDatabaseError> {
        Self::open_with(path, Tolerance::Nothing)
    }

    fn open_with(path: &Path, tolerance: Tolerance) -> Result<Self, OpenDatabaseError> {
        let path = resolve_parent(path)?;
        // Between the examination of the files and the opening of the database its writer may start or stop.
        for _ in 0..ATTEMPTS {
            let fingerprint = DatabaseFingerprint::of(&path)?;
            let opening = Opening { path: &path, tolerance, fingerprint: &fingerprint };
            match opening.check_header() {
                Err(OpenDatabaseError::File(PlainFileError::Replaced { .. })) => continue,
                checked => checked?,
            }
            if tolerance == Tolerance::Mending
                && let Some(mended) = mending::mended(&path, &fingerprint)?
            {
                match opening.begin(Access::Mended, StandIn::Mended(mended)) {
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

    /// What is left of a damaged database, if that is what is read.
    fn mended(&self) -> Option<&MendedDatabase> {
        match &self.stand_in {
            StandIn::Mended(mended) => Some(mended),
            StandIn::Nothing | StandIn::Copy(_) => None,
        }
    }

    /// Tells whether this is what is left of a damaged database.
    pub(crate) fn is_in_part(&self) -> bool {
        self.mended().is_some()
    }

    /// The rows of these keys that are known to be missing, or cut.
    pub(crate) fn lost(&self, keys: Range<&str>) -> impl Iterator<Item = (&str, Loss)> {
        self.mended().into_iter().flat_map(move |mended| mended.lost(keys.clone()))
    }

    /// Tells whether nothing is missing but what [`Self::lost`] names, as far as anybody can know.
    pub(crate) fn is_all_lost_known(&self) -> bool {
        self.mended().is_none_or(MendedDatabase::is_all_lost_known)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fingerprint(&self) -> &DatabaseFingerprint {
        &self.fingerprint
    }

    /// What a read ends with that met damage: whoever begins anew reads what is left. That is so for what contradicts
    /// itself, too, unless it is because somebody wrote to it just now.
    pub(crate) fn begin_anew(&self) -> ReadDatabaseError {
        if self.is_of_one_moment() {
            mending::note(&self.path, &self.fingerprint);
        }
        ReadDatabaseError::Changed
    }

    /// Says what is missing from all that is read here, if something is.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        if self.is_in_part() {
            Some("the file is damaged; what is left on its pages is shown")
        } else {
            self.missing_log()
        }
    }

    /// As [`Self::shortcoming`], of the log alone.
    pub(crate) fn missing_log(&self) -> Option<&'static str> {
        match self.access {
            Access::Immutable
            | Access::Abandoned
            | Access::Live
            | Access::Copied
            | Access::Mended => None,
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
        match (self.access, answer) {
            (Access::Immutable | Access::Abandoned | Access::WithoutLog | Access::Mended, _)
                if !self.is_of_one_moment() =>
            {
                Err(ReadDatabaseError::Changed)
            }
            (access, Err(err))
                if err.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
                    && access != Access::Mended
                    && self.tolerance == Tolerance::Mending =>
            {
                Err(self.begin_anew())
            }
            (_, answer) => Ok(answer?),
        }
    }

    /// Tells whether what was read is from one moment, as far as the files say.
    fn is_of_one_moment(&self) -> bool {
        let Ok(now) = DatabaseFingerprint::of(&self.path) else { return false };
        match (self.access, &self.stand_in) {
            // A log only grows, until it begins anew.
            (_, StandIn::Mended(mended)) => {
                now.has_grown_from(&self.fingerprint) && mended.has_same_log()
            }
            // SQLite's locks take care of the log.
            (Access::Live | Access::Copied, _) => now.has_same_main(&self.fingerprint),
            _ => now == self.fingerprint,
        }
    }

    /// The columns of an ordinary table, as opposed to a view or a virtual table, behind which a hostile file may hide an
    /// endless computation. Nothing if there is no such table.
    pub(crate) fn stored_columns(&self, table: &str) -> Result<Vec<String>, ReadDatabaseError> {
        self.read(|connection| {
            // What is computed is ours if the database is, and else nobody's.
            let hidden = if self.is_in_part() { 2 } else { 0 };
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

    /// As [`Self::stored_columns`]; nothing if some are missing that such a table `always` has.
    pub(crate) fn columns(
        &self,
        table: &str,
        always: &[&str],
    ) -> Result<Vec<String>, ReadDatabaseError> {
        let names = self.stored_columns(table)?;
        if always.iter().all(|column| names.iter().any(|name| name == column)) {
            Ok(names)
        } else if self.tolerance == Tolerance::Mending && self.is_schema_damaged(table, always)? {
            Err(self.begin_anew())
        } else {
            Ok(Vec::new())
        }
    }

    /// Tells whether the schema contradicts itself where it speaks of a table, which it does in several places. A view
    /// of that name, or columns that are computed, are what somebody wanted. SQLite does not read the word that says
    /// what kind of thing it is, so that a bit may have flipped there and all the rest is right.
    fn is_schema_damaged(&self, table: &str, always: &[&str]) -> Result<bool, ReadDatabaseError> {
        if self.is_in_part() {
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

    /// Tells whether there is an ordinary table that stores `columns`.
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
    /// SQLite takes an empty file for a new database, and finds out about garbage only later.
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
        } else if self.tolerance == Tolerance::Mending && mending::has_rows(self.path) {
            mending::note(self.path, self.fingerprint);
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
            StandIn::Mended(mended) => mended.connect()?,
        };
        let deadline = Arc::new(Deadline::new());
        let watch = Arc::clone(&deadline);
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || watch.is_over()))?;
        if access == Access::Abandoned {
            // Without locks SQLite takes itself for the last user, who would write the log back and delete it.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            // Whoever has the database alone keeps the index of the log in memory.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        // Else a statement is prepared anew for every value that is bound to it, in case another plan is better.
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
    fn without_shm(&self) -> Result<ReadOnlyDatabase, OpenDatabaseError> {
        let (access, stand_in) = match DatabaseCopy::of(self.path)? {
            Some(copy) => (Access::Copied, StandIn::Copy(copy)),
            None => (Access::WithoutLog, StandIn::Nothing),
        };
        self.begin(access, stand_in).map_err(ReadDatabaseError::of_opening)
    }
}

/// How a database is opened whose files look so.
fn access_to(path: &Path, fingerprint: &DatabaseFingerprint) -> Access {
    if !fingerprint.has_log() {
        Access::Immutable
    } else if fingerprint.has_journal() || is_open_for_writing(path) {
        Access::Live
    } else {
        Access::Abandoned
    }
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

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that opens a database, always read-only"
)]
fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let mode = match access {
        Access::Immutable | Access::WithoutLog => "immutable=1",
        Access::Abandoned => "mode=ro&vfs=unix-none",
        Access::Live | Access::Copied | Access::Mended => "mode=ro",
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file_uri(path, mode), flags)?;
    connection.busy_timeout(lock_patience::allowance())?;
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

#[cfg(test)]
#[path = "read_only_database_tests.rs"]
mod tests;
