//! Connections to one database for as long as one piece of work takes: one per thread, opened anew when it changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::{Table, Visit, Vscdb};
use super::keys::KeyRange;
use super::salvage::{self, RowsByKey};
use crate::model::Damage;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError};

/// How often a database is opened anew because it changed while it was read.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Vscdb>>,
    /// By table; found out when something is damaged, once: it means to look at every row.
    standing: Mutex<HashMap<Table, Arc<RowsByKey>>>,
    shortcoming: Option<&'static str>,
    is_in_part: bool,
}

/// Says why something was not read from a database.
#[derive(Debug, thiserror::Error)]
pub(super) enum UsePoolError {
    #[error(transparent)]
    Open(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
}

impl Pool {
    /// Opens the first connection, so that it is known that there can be some.
    pub(super) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        let first = Vscdb::open(path)?;
        let (shortcoming, is_in_part) = (first.database.shortcoming(), first.database.is_in_part());
        Ok(Self {
            path: path.to_owned(),
            idle: Mutex::new(vec![first]),
            standing: Mutex::default(),
            shortcoming,
            is_in_part,
        })
    }

    /// Says what is missing from all that is read here, if something is.
    pub(super) fn shortcoming(&self) -> Option<&'static str> {
        self.shortcoming
    }

    /// Tells whether the file is not whole.
    pub(super) fn is_in_part(&self) -> bool {
        self.is_in_part
    }

    /// Runs `work` with a connection of its own, and once more if the database changed meanwhile.
    pub(super) fn with<T>(
        &self,
        mut work: impl FnMut(&Vscdb) -> Result<T, ReadDatabaseError>,
    ) -> Result<T, UsePoolError> {
        let mut attempt = 1;
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let database = match idle {
                Some(database) => database,
                None => Vscdb::open(&self.path)?,
            };
            match work(&database) {
                Err(ReadDatabaseError::Changed) if attempt < ATTEMPTS => {
                    attempt += 1;
                    // The others are of the same old state.
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                Err(err) => return Err(err.into()),
                Ok(answer) => {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(database);
                    return Ok(answer);
                }
            }
        }
    }

    /// Calls `visit` for every row of a range, each once. Rows on damaged pages are passed over and named; everything
    /// else is found even if the index is damaged.
    pub(super) fn visit(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut Visit<'_>,
    ) -> Vec<Damage> {
        let mut after = None;
        // Begins where it stood when it has to begin again: what was visited before a change was as true as the rest.
        let visited = self.with(|database| database.visit_from(table, range, &mut after, visit));
        match visited {
            Ok(()) => Vec::new(),
            Err(UsePoolError::Read(err)) if err.is_damage() => {
                let rest = after.clone().unwrap_or_else(|| range.start.clone())..range.end.clone();
                let salvaged = self.standing(table).and_then(|standing| {
                    self.with(|database| {
                        let without = after.as_deref();
                        salvage::visit_damaged(database, table, &rest, without, &standing, visit)
                    })
                });
                match salvaged {
                    Ok(damage) => damage,
                    Err(err) => vec![damage_of(range, &err)],
                }
            }
            Err(err) => vec![damage_of(range, &err)],
        }
    }
}

impl Pool {
    /// Calls `visit` with the keys of a range that stand in the table, for where its index is damaged.
    pub(super) fn visit_keys_of_table(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut dyn FnMut(&str),
    ) -> Option<Damage> {
        match self.standing(table) {
            Ok(standing) => {
                standing.range(range.clone()).for_each(|(key, _)| visit(key));
                None
            }
            Err(err) => Some(damage_of(range, &err)),
        }
    }

    /// The rows that stand in a table, whatever its index says.
    fn standing(&self, table: Table) -> Result<Arc<RowsByKey>, UsePoolError> {
        // Others wait for it: each would do the same.
        let mut known = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = known.get(&table) {
            return Ok(rows.clone());
        }
        let rows = Arc::new(self.with(|database| salvage::rows_by_key(database, table))?);
        known.insert(table, rows.clone());
        Ok(rows)
    }
}

fn damage_of(range: &KeyRange, err: &UsePoolError) -> Damage {
    Damage::new(format!("{}…", range.start.escape_debug()), chain(err))
}

/// An error and what caused it, as one clause.
pub(super) fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        let cause = err.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = err.source();
    }
    text
}
