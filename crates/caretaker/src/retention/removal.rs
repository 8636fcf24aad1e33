//! Removes a run: first one rename under its lock, then the files.

use std::fs;
use std::io;
use std::path::PathBuf;

use admission::budgets::group_record::GroupRecord;
use admission::inheritance::earlier_run;
use run_journal::{KernelLock, LockRunError, RunDirectory, RunOverview, StateRoot};
use run_protocol::RunId;

use super::pins;

/// While Caretaker removes a run, its directory has a name that no run can have.
const GOING: &str = ".going-";

/// Why a run could not be removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoveError {
    #[error("it is in use")]
    InUse,
    #[error("cannot take its lock")]
    Lock(#[source] io::Error),
    #[error("cannot record its usage for its group")]
    Group(#[source] io::Error),
    #[error("cannot record its settings for its session")]
    Terms(#[source] io::Error),
    #[error("cannot remove its directory")]
    Remove(#[source] io::Error),
}

/// Removes the directory of a run that has ended. Releases the removal lock as soon as the run is renamed.
pub(crate) fn remove(
    state: &StateRoot,
    run: &RunDirectory,
    removal: KernelLock,
) -> Result<(), RemoveError> {
    // A process that wants to continue the run finds it either whole or not at all.
    let lock = match run.lock() {
        Ok(lock) => lock,
        Err(LockRunError::Take(error)) => return Err(RemoveError::Lock(error)),
        Err(_) => return Err(RemoveError::InUse),
    };
    // Count first, then remove: if this process dies in between, the record knows that it has counted the run.
    if let Ok(overview) = RunOverview::read(run)
        && let Some(group) = &overview.group
    {
        let spend = overview.spent.unwrap_or_default();
        let outcome = overview.state.outcome();
        GroupRecord::count_gone(state, group, run.run_id(), spend, outcome.as_ref())
            .map_err(RemoveError::Group)?;
    }
    earlier_run::keep_of_run(state, run).map_err(RemoveError::Terms)?;
    let going = place(state, run.run_id());
    fs::rename(run.path(), &going).map_err(RemoveError::Remove)?;
    drop(lock);
    drop(removal);
    pins::unpin(state, run.run_id()).ok();
    fs::remove_dir_all(state.hooks().join(run.run_id().to_string())).ok();
    fs::remove_dir_all(&going).map_err(RemoveError::Remove)
}

fn place(state: &StateRoot, run: RunId) -> PathBuf {
    state.runs().join(format!("{GOING}{run}"))
}

/// Finishes removals that were interrupted.
pub(crate) fn finish_earlier(state: &StateRoot) {
    for entry in fs::read_dir(state.runs()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(GOING)) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
