//! Connections to one database for one piece of work: one for each thread, opened again when the database changes.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::with_causes;

use super::keys::KeyRange;
use crate::database::again::ATTEMPTS;
use crate::database::{OpenDatabaseError, ReadDatabaseError};
use crate::ide::database::{Table, Visit, Vscdb};
use crate::model::Damage;
use crate::parallel::lock;

/// How many lost rows of a range are reported by name.
const MAX_NAMED: usize = 100;

#[derive(Debug)]
pub(crate) struct Pool {
    path: PathBuf,
    idle: Mutex<Vec<Vscdb>>,
    /// Set as soon as the database turns out to be damaged.
    is_salvaged: AtomicBool,
    shortcoming: Mutex<Option<&'static str>>,
}

/// Says why something was not read from a database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsePoolError {
    #[error(transparent)]
    Open(#[from] OpenDatabaseError),
    #[error(transparent)]
    Read(#[from] ReadDatabaseError),
}

impl Pool {
    /// Opens the first connection, to find out whether the database can be opened.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        let pool = Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            is_salvaged: AtomicBool::new(false),
            shortcoming: Mutex::default(),
        };
        let first = pool.connect()?;
        lock(&pool.idle).push(first);
        Ok(pool)
    }

    fn connect(&self) -> Result<Vscdb, OpenDatabaseError> {
        let database = Vscdb::open(&self.path)?;
        let shortcoming = database.database.shortcoming();
        if shortcoming.is_some() {
            *lock(&self.shortcoming) = shortcoming;
        }
        if database.database.is_salvaged() {
            self.is_salvaged.store(true, Ordering::Relaxed);
        }
        Ok(database)
    }

    /// Says what is missing from everything that is read here. This may become known only while reading.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        *lock(&self.shortcoming)
    }

    /// True if the database is salvaged from a damaged one.
    pub(crate) fn is_salvaged(&self) -> bool {
        self.is_salvaged.load(Ordering::Relaxed)
    }

    /// Runs `work` with its own connection, and again if the database changed in the meantime.
    pub(crate) fn with<T>(
        &self,
        mut work: impl FnMut(&Vscdb) -> Result<T, ReadDatabaseError>,
    ) -> Result<T, UsePoolError> {
        let mut attempt = 1;
        loop {
            let idle = lock(&self.idle).pop();
            let database = match idle {
                Some(database) => database,
                None => self.connect()?,
            };
            match work(&database) {
                Err(ReadDatabaseError::Changed) if attempt < ATTEMPTS => {
                    attempt += 1;
                    // The other connections see the same old state.
                    lock(&self.idle).clear();
                }
                Err(err) => return Err(err.into()),
                Ok(answer) => {
                    lock(&self.idle).push(database);
                    return Ok(answer);
                }
            }
        }
    }

    /// Calls `visit` for every row of a range, once each. Returns the rows that are lost or cut.
    pub(crate) fn visit(
        &self,
        table: Table,
        range: &KeyRange,
        visit: &mut Visit<'_>,
    ) -> Vec<Damage> {
        let mut after = None;
        // After a change, continues where it stopped. Rows that were visited before the change are as valid as the
        // rest.
        let visited = self.with(|database| database.visit_from(table, range, &mut after, visit));
        match visited {
            Ok(()) => self.lost(range),
            Err(err) => vec![damage_of(range, &err)],
        }
    }

    /// The lost or cut rows of a range. Known only after the range was read.
    pub(crate) fn lost(&self, range: &KeyRange) -> Vec<Damage> {
        if !self.is_salvaged() {
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
