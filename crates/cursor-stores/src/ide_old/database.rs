//! Reads the rows with chats of older IDEs by exact key, because the same table holds credentials.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use ground::with_causes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use crate::database::IndexedTable;
use crate::database::again::again_if;
use crate::database::with_suffix;
use crate::database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};
use crate::model::Damage;
use crate::plain_file::PlainFileError;

pub(super) const CHATS: &str = "workbench.panel.aichat.view.aichat.chatdata";
pub(super) const COMPOSERS: &str = "composer.composerData";
pub(super) const SESSIONS: &str = "interactive.sessions";
pub(super) const PROMPTS: &str = "aiService.prompts";
pub(super) const GENERATIONS: &str = "aiService.generations";
pub(super) const ALL_KEYS: [&str; 5] = [CHATS, COMPOSERS, SESSIONS, PROMPTS, GENERATIONS];

/// The index through which rows are found.
const ITEMS: IndexedTable = IndexedTable { name: "ItemTable", key: "key" };
const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// A directory with a `state.vscdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The hash of a workspace, or `global`.
    pub(super) name: String,
    pub(super) directory: PathBuf,
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) value: Vec<u8>,
    /// The database that the row was read from, which may be the backup.
    pub(super) path: PathBuf,
}

/// The wanted rows of a database.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) damage: Vec<Damage>,
}

/// Says why a database could not be queried.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    #[error(transparent)]
    Open(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
    #[error("the database has no ordinary table `ItemTable`")]
    NoTable,
}

impl QueryError {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Open(OpenDatabaseError::File(PlainFileError::Missing { .. })))
    }
}

impl Place {
    pub(super) fn main(&self) -> PathBuf {
        self.directory.join("state.vscdb")
    }

    pub(super) fn backup(&self) -> PathBuf {
        with_suffix(&self.main(), ".backup")
    }

    pub(super) fn has_backup(&self) -> bool {
        fs::symlink_metadata(self.backup()).is_ok_and(|metadata| metadata.is_file())
    }
}

/// Reads these rows. If the database or one of the rows is damaged, reads the IDE's backup instead, and reports that.
pub(super) fn read_rows(place: &Place, keys: &[&'static str]) -> Rows {
    let mut found = Rows::default();
    let main = place.main();
    let mut failures = match read_from(&main, keys) {
        Ok(answers) => found.take(&main, answers, place),
        Err(err) if err.is_missing() && !place.has_backup() => return found,
        Err(err) => {
            let whole = Failure { key: None, why: with_causes(&err), left: None };
            let rows = keys.iter().map(|key| Failure::unknown(key));
            iter::once(whole).chain(rows).collect()
        }
    };
    let wanted: Vec<&'static str> = failures.iter().filter_map(|failure| failure.key).collect();
    let mut stand_in = "and there is no backup of it";
    if !wanted.is_empty() && place.has_backup() {
        let backup = place.backup();
        match read_from(&backup, &wanted) {
            Ok(answers) => {
                let failed = found.take(&backup, answers, place);
                let is_better = |row: &Row| row.path == backup;
                let better: HashSet<_> =
                    found.rows.iter().filter(|row| is_better(row)).map(|row| row.key).collect();
                for failure in &mut failures {
                    failure.left.take_if(|_| failure.key.is_some_and(|key| better.contains(key)));
                }
                stand_in = if failed.is_empty() {
                    "its backup, which is as old as the last clean exit, was read instead"
                } else {
                    "and its backup is damaged too"
                };
            }
            Err(_) => stand_in = "and its backup cannot be read either",
        }
    }
    for Failure { key, why, left } in failures {
        if let (Some(key), Some(value)) = (key, left) {
            found.rows.push(Row { key, value, path: main.clone() });
        }
        if !why.is_empty() {
            let what = format!("{}/{}", place.name, key.unwrap_or("state.vscdb"));
            found.damage.push(Damage::new(what, format!("{why}; {stand_in}")));
        }
    }
    found
}

/// A damaged row, or a damaged database.
struct Failure {
    key: Option<&'static str>,
    /// Empty if it is unknown whether there was such a row.
    why: String,
    /// The rest of the row, used if there is nothing better.
    left: Option<Vec<u8>>,
}

impl Failure {
    fn unknown(key: &'static str) -> Self {
        Self { key: Some(key), why: String::new(), left: None }
    }
}

impl Rows {
    /// Keeps the rows that were read. Returns the failures.
    fn take(&mut self, path: &Path, answers: Answers, place: &Place) -> Vec<Failure> {
        let shortcoming = answers.shortcoming.map(str::to_owned);
        let whole = shortcoming.map(|why| Failure { key: None, why, left: None });
        let mut failed: Vec<Failure> = whole.into_iter().collect();
        let is_in_doubt = !failed.is_empty();
        for (key, answer) in answers.rows {
            match answer {
                Answer::Value(value) => self.rows.push(Row { key, value, path: path.to_owned() }),
                Answer::Nothing if is_in_doubt => failed.push(Failure::unknown(key)),
                Answer::Nothing => {}
                Answer::TooLarge(n_bytes) => self.damage.push(Damage::new(
                    format!("{}/{key}", place.name),
                    format!("has {n_bytes} bytes, more than {MAX_VALUE_BYTES}"),
                )),
                Answer::Damaged { why, left } => {
                    failed.push(Failure { key: Some(key), why: why.to_owned(), left });
                }
            }
        }
        failed
    }
}

struct Answers {
    rows: Vec<(&'static str, Answer)>,
    /// Set if rows may be missing without a trace.
    shortcoming: Option<&'static str>,
}

enum Answer {
    Value(Vec<u8>),
    /// There is no such row, or Cursor deleted it by writing `NULL`.
    Nothing,
    TooLarge(i64),
    /// With the rest of the row, if there is one.
    Damaged {
        why: &'static str,
        left: Option<Vec<u8>>,
    },
}

fn read_from(path: &Path, keys: &[&'static str]) -> Result<Answers, QueryError> {
    query(path, |database| {
        // One read for all keys: every read is followed by a look at the files.
        let read = |connection: &Connection| {
            keys.iter().map(|key| Ok((*key, value_of(connection, key)?))).collect()
        };
        let mut rows: Vec<(&'static str, Answer)> = database.read(read)?;
        for (key, answer) in &mut rows {
            if let Some((_, loss)) = database.lost(key..&format!("{key}\0")).next() {
                let left = match std::mem::replace(answer, Answer::Nothing) {
                    Answer::Value(value) => Some(value),
                    _ => None,
                };
                *answer = Answer::Damaged { why: loss.what(), left };
            }
        }
        let shortcoming = database.shortcoming().filter(|_| !database.is_all_lost_known());
        Ok(Answers { rows, shortcoming })
    })
}

/// Opens a database and queries it, again if it changed in the meantime.
fn query<T>(
    path: &Path,
    ask: impl Fn(&ReadOnlyDatabase) -> Result<T, ReadDatabaseError>,
) -> Result<T, QueryError> {
    let is_change = |err: &QueryError| matches!(err, QueryError::Read(ReadDatabaseError::Changed));
    again_if(is_change, || {
        let database = ReadOnlyDatabase::open(path)?;
        if database.has_plain_table("ItemTable", ["key", "value"])? {
            database.check_keys(&ITEMS, &ALL_KEYS)?;
            Ok(ask(&database)?)
        } else {
            Err(QueryError::NoTable)
        }
    })
}

fn value_of(connection: &Connection, key: &str) -> rusqlite::Result<Answer> {
    let sql = "SELECT octet_length(value), CASE WHEN octet_length(value) <= ?2 THEN value END \
               FROM ItemTable WHERE key = ?1";
    let answer = connection.prepare_cached(sql)?.query_row((key, MAX_VALUE_BYTES), answer_of);
    Ok(answer.optional()?.unwrap_or(Answer::Nothing))
}

fn answer_of(row: &SqlRow<'_>) -> rusqlite::Result<Answer> {
    let n_bytes: Option<i64> = row.get(0)?;
    Ok(match (row.get_ref(1)?, n_bytes) {
        (ValueRef::Text(value) | ValueRef::Blob(value), _) => Answer::Value(value.to_vec()),
        (ValueRef::Null, Some(n_bytes)) => Answer::TooLarge(n_bytes),
        (ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_), _) => Answer::Nothing,
    })
}

/// The number of rows for each of [`ALL_KEYS`], of credentials, and of all others. Does not read values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) n_by_key: [u64; ALL_KEYS.len()],
    pub(super) n_credentials: u64,
    pub(super) n_others: u64,
}

pub(super) fn count_rows(place: &Place) -> Result<Counts, QueryError> {
    let path =
        if fs::symlink_metadata(place.main()).is_ok() { place.main() } else { place.backup() };
    query(&path, |database| {
        database.read(|connection| {
            let count = |from: &str, to: &str| {
                let sql = "SELECT count(*) FROM ItemTable WHERE key >= ?1 AND key < ?2";
                connection
                    .prepare_cached(sql)?
                    .query_row((from, to), |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()))
            };
            let mut counts = Counts::default();
            for (n_rows, key) in counts.n_by_key.iter_mut().zip(ALL_KEYS) {
                *n_rows = count(key, &format!("{key}\0"))?;
            }
            counts.n_credentials =
                count("cursorAuth/", "cursorAuth0")? + count("secret://", "secret:/0")?;
            let n_all: i64 =
                connection.query_row("SELECT count(key) FROM ItemTable", [], |row| row.get(0))?;
            let n_known = counts.n_by_key.iter().sum::<u64>() + counts.n_credentials;
            counts.n_others = n_all.unsigned_abs().saturating_sub(n_known);
            Ok(counts)
        })
    })
}

impl Counts {
    pub(super) fn add(&mut self, more: Self) {
        for (n_rows, more) in self.n_by_key.iter_mut().zip(more.n_by_key) {
            *n_rows += more;
        }
        self.n_credentials += more.n_credentials;
        self.n_others += more.n_others;
    }
}
