//! The one place of this crate that opens a database: `index.db`, or one in memory where that cannot be used.
//!
//! It has no file beside it, because anybody may delete it under a process that uses it. The index of a write-ahead log
//! is mapped into memory: deleting it kills its users by SIGBUS. A rollback journal is found by its name: the one of a
//! deleted index was rolled back into the index that took its place, and emptied it. (Both were seen in the tests.) So the
//! journal is kept in memory, and a mark in the database tells whether a writer was killed at its work.

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

/// To be raised with every change of the tables or of [`RunOverview`]: an index of another version is made anew.
pub(crate) const VERSION: i32 = 7;
/// The version while somebody writes. Whoever comes upon it, and not upon the writer's lock, finds what a killed writer
/// left.
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

/// What a run's files looked like when they were read. The same look means the same overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunStamp {
    pub(crate) journal: JournalStamp,
    pub(crate) presence: i64,
}

/// What a journal looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalStamp {
    length: i64,
    /// When the file changed, its mode included, in nanoseconds.
    changed: i64,
}

impl JournalStamp {
    /// No journal, or none that can be looked at.
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

/// What the index knows of how a run was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownRun {
    pub(crate) stamp: RunStamp,
    pub(crate) finality: Finality,
}

impl KnownRun {
    /// Tells whether the overview is still right though nothing but the journal was looked at.
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

/// What is written down about one run.
#[derive(Debug)]
pub(crate) struct ReadRun {
    pub(crate) known: KnownRun,
    pub(crate) overview: RunOverview,
}

impl IndexDatabase {
    /// Opens the index at `path`; makes it anew when it is missing, damaged or of another version. Where that cannot be
    /// done, or somebody else is about it, an index in memory serves as well.
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
        // SQLite would follow a link and hang on a FIFO. The file is not opened to find out: closing it would free the
        // locks that other connections of this process hold on it.
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        let connection = connect(path, OpenFlags::empty()).ok()?;
        (version(&connection).ok()? == VERSION).then_some(Self { connection })
    }

    fn make_anew(path: &Path) -> Option<Self> {
        let _lock = KernelLock::try_take(&with_suffix(path, ".lock")).ok()??;
        // Whoever had the lock before us may have done it.
        if let Some(database) = Self::open_valid(path) {
            return Some(database);
        }
        remove(path).ok()?;
        plain_file::create_new(path).ok()?;
        let connection = connect(path, OpenFlags::empty()).ok()?;
        connection.execute_batch(&schema()).ok()?;
        Some(Self { connection })
    }

    /// Takes the place of an index that failed, in memory. One that is damaged is removed, so that whoever opens it next
    /// makes it anew; one on a full disk, or locked for long, or deleted under us, is left to others.
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

    /// Writes down what was read and forgets what is gone, all at once.
    pub(crate) fn record(&mut self, read: &[ReadRun], gone: &[String]) -> rusqlite::Result<()> {
        if read.is_empty() && gone.is_empty() {
            return Ok(());
        }
        // Nobody else looks in between: the lock is kept over all three steps.
        self.connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let recorded = self.record_marked(read, gone);
        self.connection.pragma_update(None, "locking_mode", "NORMAL")?;
        // The lock goes with the next read.
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
            // A slower process must not take a final word back. Only a journal that changed since may do so.
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

/// What SQLite itself would say of such a file, if it knew.
fn half_written() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that opens a database, which is our own"
)]
fn connect(path: &Path, more_flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more_flags;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Derived data: after a power failure it may be damaged, and is then made anew.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    Ok(connection)
}

/// Tells whether the content is at fault, as opposed to the disk or somebody else's lock.
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
