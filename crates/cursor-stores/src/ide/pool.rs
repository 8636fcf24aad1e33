//! Connections to one database for as long as one piece of work takes: one per thread, opened anew when it changes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ground::with_causes;

use super::database::{Table, Visit, Vscdb};
use super::keys::KeyRange;
use crate::again::ATTEMPTS;
use crate::model::Damage;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError};

/// Lost rows of a range that are named one by one.
const MAX_NAMED: usize = 100;

#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Vscdb>>,
    /// Set as soon as only a part of the database can be read.
    is_in_part: AtomicBool,
    shortcoming: Mutex<Option<&'static str>>,
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
        let pool = Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            is_in_part: AtomicBool::new(false),
            shortcoming: Mutex::default(),
        };
        let first = pool.connect()?;
        pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(first);
        Ok(pool)
    }

    fn connect(&self) -> Result<Vscdb, OpenDatabaseError> {
        let database = Vscdb::open(&self.path)?;
        let shortcoming = database.database.shortcoming();
        if shortcoming.is_some() {
            *self.shortcoming.lock().unwrap_or_else(PoisonError::into_inner) = shortcoming;
        }
        if database.database.is_in_part() {
            self.is_in_part.store(true, Ordering::Relaxed);
        }
        Ok(database)
    }

    /// Says what is missing from all that is read here, if something is. It may be found out while it is read.
    pub(super) fn shortcoming(&self) -> Option<&'static str> {
        *self.shortcoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether what is read is what is left of a damaged database.
    pub(super) fn is_in_part(&self) -> bool {
        self.is_in_part.load(Ordering::Relaxed)
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
                None => self.connect()?,
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

    /// Calls `visit` for every row of a range, each once. Rows of which only the key is left are named, or those that
    /// are cut.
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
            Ok(()) => self.lost(range),
            Err(err) => vec![damage_of(range, &err)],
        }
    }

    /// The rows of a range that are known to be missing, or cut. All of them are read before this is known.
    pub(super) fn lost(&self, range: &KeyRange) -> Vec<Damage> {
        if !self.is_in_part() {
            return Vec::new();
        }
        let lost = self.with(|database| {
            let lost = database.database.lost(&range.start..&range.end);
            let mut damage: Vec<Damage> =
                lost.map(|(key, loss)| Damage::new(key, loss.what())).collect();
            let n_unnamed = damage.len().saturating_sub(MAX_NAMED);
            damage.truncate(MAX_NAMED);
            if n_unnamed > 0 {
                let place = format!("{n_unnamed} more rows");
                damage.push(Damage::new(place, "they are on damaged pages of the database"));
            }
            Ok(damage)
        });
        lost.unwrap_or_else(|err| vec![damage_of(range, &err)])
    }
}

fn damage_of(range: &KeyRange, err: &UsePoolError) -> Damage {
    Damage::new(format!("{}…", range.start.escape_debug()), with_causes(err))
}
