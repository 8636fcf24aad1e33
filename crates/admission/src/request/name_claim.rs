//! Claims a run's name, from the check that it is free until the run exists.

use std::io;

use ground::make_private_dir;
use run_journal::{KernelLock, RunFilter, StateRoot, Which};
use run_protocol::{ExitCode, RunName};

use crate::command_error::{CommandError, OrFail};
use crate::host::list_runs;

/// Keeps a name from all other runs until it is dropped. Drop it once the run's directory has the name.
#[derive(Debug)]
pub struct NameClaim {
    _lock: KernelLock,
}

impl NameClaim {
    /// Claims the name, unless a live run has it.
    pub fn new(state: &StateRoot, name: &RunName) -> Result<Self, CommandError> {
        let lock =
            lock(state).or_fail_as(ExitCode::SupervisorFailed, || "cannot lock the run names")?;
        check_free(state, name)?;
        Ok(Self { _lock: lock })
    }
}

fn lock(state: &StateRoot) -> io::Result<KernelLock> {
    make_private_dir(state.path())?;
    KernelLock::take_waiting(&state.path().join("names.lock"))
}

/// Fails if a live run has the name.
pub fn check_free(state: &StateRoot, name: &RunName) -> Result<(), CommandError> {
    let filter = RunFilter {
        which: Which::Unfinished,
        name: Some(name.as_str().to_owned()),
        ..RunFilter::default()
    };
    let runs =
        list_runs(state, &filter).or_fail(|| "cannot check whether another run has this name")?;
    match runs.first() {
        None => Ok(()),
        Some(holder) => {
            let what = format!("the name `{}` is taken by run {}", name.as_str(), holder.run);
            Err(CommandError::new(ExitCode::Conflict, what)
                .hint("wait until that run has ended, or choose another name"))
        }
    }
}
