//! Reads the rows with chats of older IDEs by exact key, because the same table contains credentials.

use std::fs;
use std::path::{Path, PathBuf};

use ground::with_causes;

use crate::database::{OpenDatabaseError, ReadDatabaseError, UseDatabaseError, with_suffix};
use crate::ide::{Check, MAX_VALUE_BYTES, Pool, Table, Value, Vscdb, keys};
use crate::model::Damage;
use crate::plain_file::PlainFileError;

pub(super) const CHATS: &str = "workbench.panel.aichat.view.aichat.chatdata";
pub(super) const COMPOSERS: &str = "composer.composerData";
pub(super) const SESSIONS: &str = "interactive.sessions";
pub(super) const PROMPTS: &str = "aiService.prompts";
pub(super) const GENERATIONS: &str = "aiService.generations";
pub(super) const ALL_KEYS: [&str; 5] = [CHATS, COMPOSERS, SESSIONS, PROMPTS, GENERATIONS];

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

/// A damaged row, or a damaged database.
struct Failure {
    key: Option<&'static str>,
    /// `None` if it is unknown whether there was such a row.
    why: Option<String>,
    /// The rest of the row, used if there is nothing better.
    left: Option<Vec<u8>>,
}

/// Reads these rows. If the database or one of the rows is damaged, reads the IDE's backup instead, and reports that.
pub(super) fn read_rows(place: &Place, keys: &[&'static str]) -> Rows {
    let mut found = Rows::default();
    let main = place.main();
    let mut failures = match read_from(&main, keys, place, &mut found) {
        Ok(failures) => failures,
        Err(err) if is_missing(&err) && !place.has_backup() => return found,
        Err(err) => {
            let whole = Failure { key: None, why: Some(with_causes(&err)), left: None };
            let rows = keys.iter().map(|key| Failure { key: Some(key), why: None, left: None });
            std::iter::once(whole).chain(rows).collect()
        }
    };
    let wanted: Vec<&'static str> = failures.iter().filter_map(|failure| failure.key).collect();
    let mut stand_in = "and there is no backup of it";
    if !wanted.is_empty() && place.has_backup() {
        let n_before = found.rows.len();
        stand_in = match read_from(&place.backup(), &wanted, place, &mut found) {
            Ok(failed) if failed.is_empty() => {
                "its backup, which dates from the last clean exit, was read instead"
            }
            Ok(_) => "and its backup is damaged too",
            Err(_) => "and its backup cannot be read either",
        };
        for row in &found.rows[n_before..] {
            let of_row = failures.iter_mut().filter(|failure| failure.key == Some(row.key));
            of_row.for_each(|failure| failure.left = None);
        }
    }
    for Failure { key, why, left } in failures {
        if let (Some(key), Some(value)) = (key, left) {
            found.rows.push(Row { key, value, path: main.clone() });
        }
        if let Some(why) = why {
            let what = format!("{}/{}", place.name, key.unwrap_or("state.vscdb"));
            found.damage.push(Damage::new(what, format!("{why}; {stand_in}")));
        }
    }
    found
}

fn is_missing(err: &UseDatabaseError) -> bool {
    matches!(err, UseDatabaseError::Open(OpenDatabaseError::File(PlainFileError::Missing { .. })))
}

/// Adds the rows that can be read, and returns the failures.
fn read_from(
    path: &Path,
    keys: &[&'static str],
    place: &Place,
    found: &mut Rows,
) -> Result<Vec<Failure>, UseDatabaseError> {
    let (values, shortcoming) = query(path, |database| {
        let mut values = Vec::new();
        for key in keys {
            let lost = database.database.lost(key..&format!("{key}\0")).next();
            let loss = lost.map(|(_, loss)| loss.what().to_owned());
            values.push((*key, database.get(Table::Items, key)?, loss));
        }
        let shortcoming = database.database.shortcoming();
        Ok((values, shortcoming.filter(|_| !database.database.is_all_lost_known())))
    })?;
    // Rows may be missing without a trace.
    let whole = shortcoming.map(|why| Failure { key: None, why: Some(why.to_owned()), left: None });
    let mut failures: Vec<Failure> = whole.into_iter().collect();
    for (key, value, loss) in values {
        let bytes = match value {
            Some(Value::Bytes(bytes)) => Some(bytes.into_owned()),
            Some(Value::TooLarge { n_bytes }) if loss.is_none() => {
                let what = format!("has {n_bytes} bytes, more than {MAX_VALUE_BYTES}");
                found.damage.push(Damage::new(format!("{}/{key}", place.name), what));
                continue;
            }
            // Cursor deletes a row by writing `NULL`.
            _ => None,
        };
        match bytes {
            left if loss.is_some() => failures.push(Failure { key: Some(key), why: loss, left }),
            Some(value) => found.rows.push(Row { key, value, path: path.to_owned() }),
            None if shortcoming.is_some() => {
                failures.push(Failure { key: Some(key), why: None, left: None });
            }
            None => {}
        }
    }
    Ok(failures)
}

/// Opens a database and queries it. Tries again if it changed in the meantime.
fn query<T>(
    path: &Path,
    ask: impl FnMut(&Vscdb) -> Result<T, ReadDatabaseError>,
) -> Result<T, UseDatabaseError> {
    let pool = Pool::open_checked(path, Check::Keys(&ALL_KEYS))?;
    match pool.with(|database| Ok(database.has(Table::Items)))? {
        true => pool.with(ask),
        false => Err(UseDatabaseError::NotAStore("the database has no ordinary table `ItemTable`")),
    }
}

/// The number of rows for each of [`ALL_KEYS`], for credentials, and for all others. Counting reads no values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) n_by_key: [u64; ALL_KEYS.len()],
    pub(super) n_credentials: u64,
    pub(super) n_others: u64,
}

pub(super) fn count_rows(place: &Place) -> Result<Counts, UseDatabaseError> {
    let path =
        if fs::symlink_metadata(place.main()).is_ok() { place.main() } else { place.backup() };
    query(&path, |database| {
        let count = |range| database.count_keys(Table::Items, &range);
        let mut counts = Counts::default();
        for (n_rows, key) in counts.n_by_key.iter_mut().zip(ALL_KEYS) {
            *n_rows = count(keys::only(key))?;
        }
        for family in ["cursorAuth/", "secret://"] {
            counts.n_credentials += count(keys::beginning_with(family))?;
        }
        let n_all = database.database.count("SELECT count(key) FROM ItemTable", [])?;
        let n_known = counts.n_by_key.iter().sum::<u64>() + counts.n_credentials;
        counts.n_others = n_all.saturating_sub(n_known);
        Ok(counts)
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
