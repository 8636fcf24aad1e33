//! The rows that chats of older IDEs are kept in, read by their exact keys: credentials are in the same table.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use crate::error_chain::describe;
use crate::index_check::IndexedTable;
use crate::model::Damage;
use crate::plain_file::PlainFileError;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};

pub(super) const CHATS: &str = "workbench.panel.aichat.view.aichat.chatdata";
pub(super) const COMPOSERS: &str = "composer.composerData";
pub(super) const SESSIONS: &str = "interactive.sessions";
pub(super) const PROMPTS: &str = "aiService.prompts";
pub(super) const GENERATIONS: &str = "aiService.generations";
pub(super) const ALL_KEYS: [&str; 5] = [CHATS, COMPOSERS, SESSIONS, PROMPTS, GENERATIONS];

const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;
const ATTEMPTS: usize = 3;

/// A directory with a `state.vscdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The hash of a workspace, or `global`.
    pub(super) name: String,
    pub(super) directory: PathBuf,
}

/// One row that was found.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) value: Vec<u8>,
    /// The database it was read from: the backup, if need be.
    pub(super) path: PathBuf,
}

/// What a database holds of what was asked for.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) damage: Vec<Damage>,
}

/// Says why a database gave no answer.
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

/// Reads these rows. Where the database cannot be read, or a row of it, the backup that the IDE made stands in, and that
/// is said.
pub(super) fn read_rows(place: &Place, keys: &[&'static str]) -> Rows {
    let mut found = Rows::default();
    let main = place.main();
    let (mut left, failure) = match read_from(&main, keys) {
        Ok(answers) => {
            let failure = found.take(&main, answers, place);
            (failure.iter().map(|(key, _)| *key).collect::<Vec<_>>(), failure)
        }
        Err(err) if err.is_missing() && !place.has_backup() => return found,
        Err(err) => (keys.to_vec(), vec![("state.vscdb", describe(&err))]),
    };
    if left.is_empty() {
        return found;
    }
    let mut stand_in = "and there is no backup of it";
    if place.has_backup() {
        let backup = place.backup();
        match read_from(&backup, &left) {
            Ok(answers) => {
                let failed = found.take(&backup, answers, place);
                left.retain(|key| failed.iter().any(|(failed, _)| failed == key));
                stand_in = if left.is_empty() {
                    "its backup, which is as old as the last clean exit, was read instead"
                } else {
                    "and its backup is damaged too"
                };
            }
            Err(_) => stand_in = "and its backup cannot be read either",
        }
    }
    for (what, why) in failure {
        found
            .damage
            .push(Damage::new(format!("{}/{what}", place.name), format!("{why}; {stand_in}")));
    }
    found
}

impl Rows {
    /// Keeps what was read, and returns what could not be.
    fn take(
        &mut self,
        path: &Path,
        answers: Vec<(&'static str, Answer)>,
        place: &Place,
    ) -> Vec<(&'static str, String)> {
        let mut failed = Vec::new();
        for (key, answer) in answers {
            match answer {
                Answer::Value(value) => self.rows.push(Row { key, value, path: path.to_owned() }),
                Answer::Nothing => {}
                Answer::TooLarge(n_bytes) => self.damage.push(Damage::new(
                    format!("{}/{key}", place.name),
                    format!("has {n_bytes} bytes, more than {MAX_VALUE_BYTES}"),
                )),
                Answer::Damaged(why) => failed.push((key, why)),
            }
        }
        failed
    }
}

enum Answer {
    Value(Vec<u8>),
    /// No such row, or one that was deleted by writing `NULL`.
    Nothing,
    TooLarge(i64),
    Damaged(String),
}

fn read_from(
    path: &Path,
    keys: &[&'static str],
) -> Result<Vec<(&'static str, Answer)>, QueryError> {
    query(path, |database| {
        // All at once: every read is followed by a look at the files.
        let answers = database.read(|connection| {
            keys.iter().map(|key| Ok((*key, value_of(connection, key)?))).collect()
        })?;
        let mut answers: Vec<(&'static str, Answer)> = answers;
        for (key, answer) in &mut answers {
            if let Some((_, loss)) = database.lost(key..&format!("{key}\0")).next() {
                *answer = Answer::Damaged(loss.what().to_owned());
            }
        }
        Ok(answers)
    })
}

/// Opens a database and asks it, again if it changed under the question.
fn query<T>(
    path: &Path,
    ask: impl Fn(&ReadOnlyDatabase) -> Result<T, ReadDatabaseError>,
) -> Result<T, QueryError> {
    let mut n_left = ATTEMPTS;
    loop {
        n_left -= 1;
        let answer = ReadOnlyDatabase::open(path).map_err(QueryError::from).and_then(|database| {
            if database.has_plain_table("ItemTable", ["key", "value"])? {
                database.check_small(&[IndexedTable {
                    index: "ItemTable",
                    name: "ItemTable",
                    key: &["key"],
                }])?;
                Ok(ask(&database)?)
            } else {
                Err(QueryError::NoTable)
            }
        });
        match answer {
            Err(QueryError::Read(ReadDatabaseError::Changed)) if n_left > 0 => {}
            answer => return answer,
        }
    }
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

/// How many rows there are of each of [`ALL_KEYS`], of credentials, and of everything else. Reads no value.
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
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
