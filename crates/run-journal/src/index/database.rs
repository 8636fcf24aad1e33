//! Opens the index's database: `index.db`, or a database in memory if that file cannot be used.
//!
//! The index has no second file next to it, because any process may delete the index while another uses it. SQLite maps
//! the index of a write-ahead log into memory: deleting that file kills its users with SIGBUS. SQLite finds a rollback
//! journal by its name: SQLite rolled the journal of a deleted index back into its replacement, and emptied it. (Both
//! happened in tests.) So the journal is in memory, and a mark in the database shows whether a writer was killed while
//! it wrote.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::plain_file;
use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use crate::{KernelLock, RunFilter, RunOverview, Which};

/// Raise this with every change to the tables or to [`RunOverview`]. Caretaker rebuilds an index with a different
/// version.
pub(crate) const VERSION: i32 = 7;
/// The version while a process writes. If a process finds this version but not the writer's lock, a writer was killed.
const BEING_WRITTEN: i32 = -1;
/// Transactions here are short.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const SCHEMA: &str = "
    CREATE TABLE runs (
        run TEXT PRIMARY KEY,
        journal_length INTEGER NOT NULL,
        journal_changed INTEGER NOT NULL,
        presence INTEGER NOT NULL,
        is_final INTEGER NOT NULL,
        is_unfinished INTEGER NOT NULL,
        name TEXT,
        session TEXT NOT NULL,
        overview TEXT NOT NULL
    );
";

/// An open index.
#[derive(Debug)]
pub(crate) struct IndexDatabase {
    connection: Connection,
}

/// A fingerprint of a run's files. If it is the same, the overview is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunStamp {
    pub(crate) journal: JournalStamp,
    pub(crate) presence: i64,
}

/// A fingerprint of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalStamp {
    length: i64,
    /// When the file or its mode changed, in nanoseconds.
    changed: i64,
}

impl JournalStamp {
    /// There is no journal, or it cannot be examined.
    const MISSING: Self = Self { length: -1, changed: -1 };

    pub(crate) fn of(journal: &Path) -> Self {
        fs::symlink_metadata(journal).map_or(Self::MISSING, |journal| {
            let seconds = journal.ctime().saturating_mul(1_000_000_000);
            Self {
                length: journal.size() as i64,
                changed: seconds.saturating_add(journal.ctime_nsec()),
            }
        })
    }
}

/// A run's stamp in the index, and whether its overview is final.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownRun {
    pub(crate) stamp: RunStamp,
    pub(crate) finality: Finality,
}

impl KnownRun {
    /// True if the overview is still correct, judging by the journal alone.
    pub(crate) fn is_final_with(&self, journal: JournalStamp) -> bool {
        self.finality == Finality::Final && self.stamp.journal == journal
    }
}

/// Whether a run's overview may still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finality {
    Final,
    Passing,
}

/// A row of the index.
#[derive(Debug)]
pub(crate) struct ReadRun {
    pub(crate) known: KnownRun,
    pub(crate) overview: RunOverview,
}

impl IndexDatabase {
    /// Opens the index at `path`. Rebuilds it if it is missing or damaged, or has a different version. If that fails, or
    /// another process is rebuilding it, an index in memory takes its place.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        if let Some(database) = Self::open_valid(path) {
            return Ok(database);
        }
        match Self::make_anew(path) {
            Some(database) => Ok(database),
            None => Self::in_memory(),
        }
    }

    pub(crate) fn in_memory() -> rusqlite::Result<Self> {
        let connection = connect(Path::new(":memory:"), OpenFlags::SQLITE_OPEN_CREATE)?;
        connection.execute_batch(&schema())?;
        Ok(Self { connection })
    }

    fn open_valid(path: &Path) -> Option<Self> {
        // SQLite would follow a link and hang on a FIFO. Do not open the file to find out: closing it would release the
        // locks that other connections of this process hold on it.
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let connection = connect(path, OpenFlags::empty()).ok()?;
        (version(&connection).ok()? == VERSION).then_some(Self { connection })
    }

    fn make_anew(path: &Path) -> Option<Self> {
        let _lock = KernelLock::try_take(&with_suffix(path, ".lock")).ok()??;
        // The lock's last holder may have rebuilt it.
        if let Some(database) = Self::open_valid(path) {
            return Some(database);
        }
        remove(path).ok()?;
        plain_file::create_new(path).ok()?;
        let connection = connect(path, OpenFlags::empty()).ok()?;
        connection.execute_batch(&schema()).ok()?;
        Some(Self { connection })
    }

    /// Replaces a failed index with one in memory. Removes the file if it is damaged, so that the next process rebuilds
    /// it. Leaves the file if the disk is full, if it stays locked for long, or if another process deleted it.
    pub(crate) fn after(err: &rusqlite::Error, path: &Path) -> rusqlite::Result<Self> {
        if is_damage(err)
            && let Ok(Some(_lock)) = KernelLock::try_take(&with_suffix(path, ".lock"))
        {
            remove(path).ok();
        }
        Self::in_memory()
    }

    pub(crate) fn known_runs(&self) -> rusqlite::Result<HashMap<String, KnownRun>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run, journal_length, journal_changed, presence, is_final FROM runs",
        )?;
        let rows = statement.query_map([], |row| {
            let stamp = RunStamp {
                journal: JournalStamp { length: row.get(1)?, changed: row.get(2)? },
                presence: row.get(3)?,
            };
            let finality = if row.get(4)? { Finality::Final } else { Finality::Passing };
            Ok((row.get(0)?, KnownRun { stamp, finality }))
        })?;
        rows.collect()
    }

    /// Stores the runs that were read and removes the runs that are gone, in one step.
    pub(crate) fn record(&mut self, read: &[ReadRun], gone: &[String]) -> rusqlite::Result<()> {
        if read.is_empty() && gone.is_empty() {
            return Ok(());
        }
        // No other process reads in between: the lock covers all three steps.
        self.connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let recorded = self.record_marked(read, gone);
        self.connection.pragma_update(None, "locking_mode", "NORMAL")?;
        // The next read releases the lock.
        version(&self.connection)?;
        recorded
    }

    fn record_marked(&mut self, read: &[ReadRun], gone: &[String]) -> rusqlite::Result<()> {
        let mark = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&mark)? != VERSION {
            return Err(half_written());
        }
        mark.pragma_update(None, "user_version", BEING_WRITTEN)?;
        mark.commit()?;
        self.write_rows(read, gone)?;
        self.connection.pragma_update(None, "user_version", VERSION)
    }

    fn write_rows(&mut self, read: &[ReadRun], gone: &[String]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for ReadRun { known: KnownRun { stamp, finality }, overview } in read {
            // A slower process must not replace a final overview, unless the journal has changed since.
            transaction
                .prepare_cached(
                    "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                     ON CONFLICT (run) DO UPDATE SET
                        journal_length = ?2, journal_changed = ?3, presence = ?4, is_final = ?5,
                        is_unfinished = ?6, name = ?7, session = ?8, overview = ?9
                     WHERE is_final <= ?5 OR journal_changed < ?3 OR ?3 < 0",
                )?
                .execute(params![
                    overview.run.to_string(),
                    stamp.journal.length,
                    stamp.journal.changed,
                    stamp.presence,
                    *finality == Finality::Final,
                    overview.state.is_unfinished(),
                    overview.name,
                    overview.session,
                    serde_json::to_string(overview).map_err(unwritable)?,
                ])?;
        }
        for run in gone {
            transaction.execute("DELETE FROM runs WHERE run = ?1", [run])?;
        }
        transaction.commit()
    }

    /// Newest first.
    pub(crate) fn list(&self, filter: &RunFilter) -> rusqlite::Result<Vec<RunOverview>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT overview FROM runs
             WHERE (?1 OR is_unfinished) AND (?2 IS NULL OR name = ?2) AND (?3 IS NULL OR session = ?3)
             ORDER BY run DESC",
        )?;
        let mut rows =
            statement.query(params![filter.which == Which::All, filter.name, filter.session])?;
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut overviews = Vec::new();
        while overviews.len() < limit
            && let Some(row) = rows.next()?
        {
            let text = row.get_ref(0)?.as_str()?;
            let overview: RunOverview = serde_json::from_str(text).map_err(unreadable)?;
            if filter.allows(&overview) {
                overviews.push(overview);
            }
        }
        Ok(overviews)
    }
}

fn schema() -> String {
    format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
}

fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0))
}

/// The error that SQLite would return if it could detect a half-written file.
fn half_written() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only function of this crate that opens a database; the database is our own"
)]
fn connect(path: &Path, more_flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more_flags;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Derived data: if a power failure damages it, the next process rebuilds it.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    Ok(connection)
}

/// True if the content of the file is damaged; false if the disk or a lock is the problem.
fn is_damage(err: &rusqlite::Error) -> bool {
    !matches!(
        err.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
        )
    )
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn unwritable(err: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(err.into())
}

fn unreadable(err: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, err.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// For tests that damage an index.
    pub(crate) fn connection(path: &Path) -> Connection {
        connect(path, OpenFlags::empty()).unwrap()
    }
}
