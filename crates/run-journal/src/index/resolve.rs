//! Finds the run that a user means.

use std::cell::OnceCell;
use std::io;

use run_protocol::RunId;

use crate::index::all_runs;
use crate::{IndexError, RunFilter, StateRoot, list_runs};

/// A shorter prefix is more often a typo than intended.
const SHORTEST_PREFIX: usize = 4;

/// Why a text does not name a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    #[error("there is no run `{text}`")]
    NotFound { text: String },
    /// Newest first.
    #[error("`{text}` matches {} runs", candidates.len())]
    Ambiguous { text: String, candidates: Vec<RunId> },
    #[error("the runs directory could not be read")]
    Runs(#[source] io::Error),
    #[error("the names of the runs could not be read")]
    Index(#[from] IndexError),
}

/// Finds one run; see [`RunFinder::find`].
pub fn resolve(state: &StateRoot, text: &str) -> Result<RunId, ResolveError> {
    RunFinder::new(state)?.find(text)
}

/// Finds any number of runs among those that existed when the finder was created.
#[derive(Debug)]
pub struct RunFinder<'a> {
    state: &'a StateRoot,
    runs: Vec<RunId>,
    /// Loaded the first time that a text may be a name.
    named: OnceCell<Vec<(String, RunId)>>,
}

impl<'a> RunFinder<'a> {
    pub fn new(state: &'a StateRoot) -> Result<Self, ResolveError> {
        let runs = all_runs(state).map_err(ResolveError::Runs)?;
        Ok(Self { state, runs, named: OnceCell::new() })
    }

    /// Finds a run by its name, its id, or a unique prefix of its id or of the id's last group (four characters or
    /// more; ids from the same hour begin alike). `-` means the latest run.
    pub fn find(&self, text: &str) -> Result<RunId, ResolveError> {
        let not_found = || ResolveError::NotFound { text: text.to_owned() };
        if text == "-" {
            return self.runs.iter().max().copied().ok_or_else(not_found);
        }
        if let Ok(run) = text.parse::<RunId>() {
            return if self.runs.contains(&run) { Ok(run) } else { Err(not_found()) };
        }
        let mut candidates = runs_with_prefix(&self.runs, text);
        let named = self.named()?.iter().filter(|(name, _)| name == text);
        candidates.extend(named.map(|(_, run)| *run));
        candidates.sort_unstable_by(|one, other| other.cmp(one));
        candidates.dedup();
        match candidates.as_slice() {
            [] => Err(not_found()),
            [run] => Ok(*run),
            _ => Err(ResolveError::Ambiguous { text: text.to_owned(), candidates }),
        }
    }

    fn named(&self) -> Result<&[(String, RunId)], IndexError> {
        if let Some(named) = self.named.get() {
            return Ok(named);
        }
        let runs = list_runs(self.state, &RunFilter::default())?;
        let named = runs.into_iter().filter_map(|run| run.name.map(|name| (name, run.run)));
        Ok(self.named.get_or_init(|| named.collect()))
    }
}

fn runs_with_prefix(runs: &[RunId], text: &str) -> Vec<RunId> {
    if text.len() < SHORTEST_PREFIX {
        return Vec::new();
    }
    let text = text.to_ascii_lowercase();
    let begins = |run: &&RunId| {
        let id = run.to_string();
        let last_group = id.rsplit('-').next().unwrap_or_default();
        id.starts_with(&text) || last_group.starts_with(&text)
    };
    runs.iter().filter(begins).copied().collect()
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
