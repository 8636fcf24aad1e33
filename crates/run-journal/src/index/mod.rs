//! `index.db`: an overview of all runs, derived from their journals. It may be deleted at any time.
//!
//! Several processes may refresh the index at once: each reads the journals without a lock and writes its result in one
//! short transaction. The slower process stores an older stamp, so the next refresh reads that run again.

pub(crate) mod database;
mod overview;
mod resolve;
mod standing;

use std::fs;
use std::io;

use run_protocol::{BytesPath, RunId};

use crate::index::database::{Finality, IndexDatabase, JournalStamp, KnownRun, ReadRun, RunStamp};
use crate::{OpenRunError, RunDirectory, StateRoot, WriterPresence};

pub use overview::{Reported, RunOverview, RunState};
pub use resolve::{ResolveError, RunFinder, resolve};

/// The derived index of all runs.
#[derive(Debug)]
pub(crate) struct RunIndex {
    state: StateRoot,
    database: IndexDatabase,
}

/// Selects the runs to list. An empty field sets no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub which: Which,
    pub name: Option<String>,
    pub session: Option<String>,
    pub workspace: Option<BytesPath>,
    /// The run must have all of these labels.
    pub labels: Vec<(String, String)>,
    pub limit: Option<usize>,
}

/// Filters runs by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which {
    #[default]
    All,
    /// Runs that have not ended and are not lost.
    Unfinished,
}

/// Why runs cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    #[error("the runs directory could not be read")]
    Runs(#[source] io::Error),
    #[error("the index could not be used")]
    Database(#[from] rusqlite::Error),
}

/// Lists the runs in their current state, newest first. If there was never a run, this creates nothing on disk.
pub fn list_runs(state: &StateRoot, filter: &RunFilter) -> Result<Vec<RunOverview>, IndexError> {
    if matches!(state.runs().try_exists(), Ok(false)) {
        return Ok(Vec::new());
    }
    let mut index = RunIndex::open(state)?;
    index.refresh()?;
    index.list(filter)
}

impl RunIndex {
    /// Opens the index. Rebuilds it if it is missing or damaged, or has a different version. Falls back to an index in
    /// memory.
    pub(crate) fn open(state: &StateRoot) -> Result<Self, IndexError> {
        let database = IndexDatabase::open(&state.index_db())?;
        Ok(Self { state: state.clone(), database })
    }

    /// Reads the runs whose journal or lock changed.
    pub(crate) fn refresh(&mut self) -> Result<(), IndexError> {
        match self.try_refresh() {
            // The index is derived, so it can be rebuilt.
            Err(IndexError::Database(err)) => {
                self.database = IndexDatabase::after(&err, &self.state.index_db())?;
                self.try_refresh()
            }
            answer => answer,
        }
    }

    /// The runs as of the last refresh, newest first.
    pub(crate) fn list(&self, filter: &RunFilter) -> Result<Vec<RunOverview>, IndexError> {
        let err = match self.database.list(filter) {
            Ok(overviews) => return Ok(overviews),
            Err(err) => err,
        };
        let database = IndexDatabase::after(&err, &self.state.index_db())?;
        let mut fresh = Self { state: self.state.clone(), database };
        fresh.try_refresh()?;
        Ok(fresh.database.list(filter)?)
    }

    fn try_refresh(&mut self) -> Result<(), IndexError> {
        let mut known_runs = self.database.known_runs()?;
        let mut read = Vec::new();
        for run in all_runs(&self.state).map_err(IndexError::Runs)? {
            let known = known_runs.remove(&run.to_string());
            // A run that has ended has no writer, so only its journal can change: it may have been cut or replaced.
            if known.is_some_and(|known| {
                known.is_final_with(JournalStamp::of(&self.state.journal(&run)))
            }) {
                continue;
            }
            match RunDirectory::open(&self.state, run) {
                Ok(directory) => read.extend(read_if_changed(&directory, known)),
                // Another process removed it just now, or it is not a run.
                Err(OpenRunError::Missing(_) | OpenRunError::NotOurs { .. }) => {}
                Err(OpenRunError::Examine { source, .. }) => return Err(IndexError::Runs(source)),
            }
        }
        let gone: Vec<String> = known_runs.into_keys().collect();
        Ok(self.database.record(&read, &gone)?)
    }
}

impl RunFilter {
    pub(crate) fn allows(&self, overview: &RunOverview) -> bool {
        let has_label = |(key, value): &(String, String)| overview.labels.get(key) == Some(value);
        self.workspace.as_ref().is_none_or(|workspace| overview.workspace == *workspace)
            && self.labels.iter().all(has_label)
    }
}

/// The ids of all runs that have a directory, in no particular order.
pub(crate) fn all_runs(state: &StateRoot) -> io::Result<Vec<RunId>> {
    let entries = match fs::read_dir(state.runs()) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut runs = Vec::new();
    for entry in entries {
        runs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
    }
    Ok(runs)
}

fn read_if_changed(directory: &RunDirectory, known: Option<KnownRun>) -> Option<ReadRun> {
    // First the stamp, then the content: the next refresh reads changes in between again.
    let stamp = stamp(directory);
    if known.is_some_and(|known| known.stamp == stamp) {
        return None;
    }
    let overview = RunOverview::read(directory).ok()?;
    let finality = match overview.state {
        RunState::Ended { .. } if stamp.presence == GONE => Finality::Final,
        _ => Finality::Passing,
    };
    Some(ReadRun { known: KnownRun { stamp, finality }, overview })
}

const NOT_YET: i64 = 0;
const LIVE: i64 = 1;
const GONE: i64 = 2;
const UNKNOWN: i64 = 3;

fn stamp(directory: &RunDirectory) -> RunStamp {
    let presence = match directory.writer() {
        Ok(WriterPresence::NotYet) => NOT_YET,
        Ok(WriterPresence::Live(_)) => LIVE,
        Ok(WriterPresence::Gone(_)) => GONE,
        Err(_) => UNKNOWN,
    };
    RunStamp { journal: JournalStamp::of(&directory.journal_path()), presence }
}

#[cfg(test)]
#[path = "index_tests.rs"]
pub(crate) mod tests;
