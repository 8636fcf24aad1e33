//! Finding the run that a user means.

use std::io;

use run_protocol::RunId;

use crate::run_index::all_runs;
use crate::{IndexError, RunFilter, RunIndex, StateRoot};

/// Shorter beginnings are typing errors more often than they are meant.
const SHORTEST_PREFIX: usize = 4;

/// Says why a text names no run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    #[error("there is no run `{text}`")]
    NotFound { text: String },
    /// The newest first.
    #[error("`{text}` may be any of {} runs", candidates.len())]
    Ambiguous { text: String, candidates: Vec<RunId> },
    #[error("the directory of runs could not be read")]
    Runs(#[source] io::Error),
    #[error("names could not be looked up")]
    Index(#[from] IndexError),
}

/// Finds a run by its id, by a unique beginning of its id or of the id's last group (four characters or more; ids made
/// in the same hour begin alike), by its name, or the latest by `-`.
pub fn resolve(state: &StateRoot, text: &str) -> Result<RunId, ResolveError> {
    let runs = all_runs(state).map_err(ResolveError::Runs)?;
    let not_found = || ResolveError::NotFound { text: text.to_owned() };
    if text == "-" {
        return runs.into_iter().max().ok_or_else(not_found);
    }
    if let Ok(run) = text.parse::<RunId>() {
        return if runs.contains(&run) { Ok(run) } else { Err(not_found()) };
    }
    let mut candidates = runs_with_prefix(&runs, text);
    candidates.extend(runs_with_name(state, text)?);
    candidates.sort_unstable_by(|one, other| other.cmp(one));
    candidates.dedup();
    match candidates.as_slice() {
        [] => Err(not_found()),
        [run] => Ok(*run),
        _ => Err(ResolveError::Ambiguous { text: text.to_owned(), candidates }),
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

fn runs_with_name(state: &StateRoot, name: &str) -> Result<Vec<RunId>, IndexError> {
    let mut index = RunIndex::open(state)?;
    index.refresh()?;
    let filter = RunFilter { name: Some(name.to_owned()), ..RunFilter::default() };
    Ok(index.list(&filter)?.into_iter().map(|overview| overview.run).collect())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
