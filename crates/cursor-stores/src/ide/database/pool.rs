//! Connections to one database for one task: one per thread, reopened when the database changes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::with_causes;

use super::keys::{self, KeyRange};
use super::{Check, Row, Table, Value, Visit, Vscdb};
use crate::database::{ReadDatabaseError, UseDatabaseError, again};
use crate::model::Damage;
use crate::parallel::lock;

/// How many lost rows of a range to report by name.
const MAX_NAMED: usize = 100;

#[derive(Debug)]
pub(crate) struct Pool {
    path: PathBuf,
    check: Check,
    idle: Mutex<Vec<Vscdb>>,
    /// Set when the database turns out to be damaged.
    is_salvaged: AtomicBool,
    shortcoming: Mutex<Option<&'static str>>,
}

impl Pool {
    /// Opens the first connection, to find out whether the database can be opened.
    pub(crate) fn open(path: &Path) -> Result<Self, UseDatabaseError> {
        Self::open_checked(path, Check::Whole)
    }

    pub(crate) fn open_checked(path: &Path, check: Check) -> Result<Self, UseDatabaseError> {
        let pool = Self {
            path: path.to_owned(),
            check,
            idle: Mutex::default(),
            is_salvaged: AtomicBool::new(false),
            shortcoming: Mutex::default(),
        };
        pool.with(|_| Ok(()))?;
        Ok(pool)
    }

    fn connect(&self) -> Result<Vscdb, UseDatabaseError> {
        let database = Vscdb::open(&self.path, self.check)?;
        let shortcoming = database.database.shortcoming();
        if shortcoming.is_some() {
            *lock(&self.shortcoming) = shortcoming;
        }
        if database.database.is_salvaged() {
            self.is_salvaged.store(true, Ordering::Relaxed);
        }
        Ok(database)
    }

    /// Says why reads may be incomplete. Sometimes only a read reveals that.
    pub(crate) fn shortcoming(&self) -> Option<&'static str> {
        *lock(&self.shortcoming)
    }

    /// True if the database was salvaged from a damaged one.
    pub(crate) fn is_salvaged(&self) -> bool {
        self.is_salvaged.load(Ordering::Relaxed)
    }

    /// Runs `work` on a connection of its own. Runs it again if the database changed in the meantime.
    pub(crate) fn with<T>(
        &self,
        mut work: impl FnMut(&Vscdb) -> Result<T, ReadDatabaseError>,
    ) -> Result<T, UseDatabaseError> {
        again(|| {
            let idle = lock(&self.idle).pop();
            let database = match idle {
                Some(database) => database,
                None => self.connect()?,
            };
            let answer = work(&database);
            match answer {
                Ok(_) => lock(&self.idle).push(database),
                // The other connections see the same old state.
                Err(_) => lock(&self.idle).clear(),
            }
            Ok(answer?)
        })
    }

    /// Returns the bytes of exactly this key. `None` if there are none, or they cannot be read.
    pub(crate) fn bytes(&self, table: Table, key: &str) -> Option<Vec<u8>> {
        match self.with(|database| database.get(table, key)) {
            Ok(Some(Value::Bytes(bytes))) => Some(bytes.into_owned()),
            _ => None,
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
        // After a change, continues where it stopped. Rows visited before the change are as valid as the rest.
        let visited = self.with(|database| database.visit_from(table, range, &mut after, visit));
        self.damage_of(range, visited)
    }

    /// Like [`Self::visit`], but for the rows of a family that belong to a conversation. Passes each row's id.
    pub(crate) fn visit_own(
        &self,
        family: &str,
        composer: &str,
        visit: &mut dyn FnMut(&str, Row<'_>) -> ControlFlow<()>,
    ) -> Vec<Damage> {
        let range = keys::of_composer(family, composer);
        self.visit(Table::DiskKv, &range, &mut |row| match keys::split(family, row.key) {
            Some((owner, id)) if owner == composer => visit(id, row),
            _ => ControlFlow::Continue(()),
        })
    }

    /// Returns the damage in a range after a walk.
    pub(crate) fn damage_of(
        &self,
        range: &KeyRange,
        walked: Result<(), UseDatabaseError>,
    ) -> Vec<Damage> {
        let lost = match walked {
            Ok(()) if !self.is_salvaged() => return Vec::new(),
            Ok(()) => self.with(|database| {
                let lost = database.database.lost(&range.start..&range.end);
                Ok(lost.map(|(key, loss)| Damage::new(key, loss.what())).collect())
            }),
            Err(err) => Err(err),
        };
        let mut damage: Vec<Damage> = lost.unwrap_or_else(|err| {
            vec![Damage::new(format!("{}…", range.start.escape_debug()), with_causes(&err))]
        });
        let n_unnamed = damage.len().saturating_sub(MAX_NAMED);
        damage.truncate(MAX_NAMED);
        if n_unnamed > 0 {
            let place = format!("{n_unnamed} more rows");
            damage.push(Damage::new(place, "they are on damaged pages of the database"));
        }
        damage
    }

    /// Returns the lost or cut rows of a range. Known only after the range has been read.
    pub(crate) fn lost(&self, range: &KeyRange) -> Vec<Damage> {
        self.damage_of(range, Ok(()))
    }
}
