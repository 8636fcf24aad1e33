//! The run that a session's next run inherits from.
//!
//! ```text
//!   runs/<id>/spec.json            the spec of the session's last run, while the run exists
//!   sessions/<uuid>/terms.json     a copy of it, if `gc` removed that run, or if the session is a fork
//! ```

use std::{fs, io};

use ground::{Durable, make_private_dir, replace_file};
use run_journal::{RunDirectory, RunFilter, StateRoot};
use run_protocol::{McpChoice, RunId, RunSpec};
use run_shim::read_session_record;
use uuid::Uuid;

use crate::command_error::{CommandError, OrFail};
use crate::host::list_runs;

/// A session's last run.
#[derive(Debug)]
pub enum Earlier {
    /// Caretaker has no run of the session: the user's own cursor-agent began it, or it was imported.
    None,
    Known(Box<RunSpec>),
    /// There was a run, but its spec is gone or cannot be read.
    Lost,
}

/// Finds the last run of a session, even if it is still waiting in the queue.
pub fn of_session(state: &StateRoot, session: Uuid) -> Result<Earlier, CommandError> {
    for run in runs_of(state, session)? {
        let spec = match RunDirectory::open(state, run) {
            Ok(directory) => directory.spec().ok(),
            Err(_) => None,
        };
        // The shim may have refused the run and removed it since it was listed here.
        if spec.is_some() || state.run_dir(&run).exists() {
            return Ok(known(spec));
        }
    }
    match fs::read(state.session_terms(&session)) {
        Ok(text) => Ok(known(serde_json::from_slice(&text).ok().flatten())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(match read_session_record(state, &session) {
                Some(_) => Earlier::Lost,
                None => Earlier::None,
            })
        }
        Err(_) => Ok(Earlier::Lost),
    }
}

/// The spec of the run to repeat.
pub(crate) fn of_run(state: &StateRoot, run: RunId) -> Earlier {
    known(RunDirectory::open(state, run).ok().and_then(|run| run.spec().ok()))
}

fn known(spec: Option<RunSpec>) -> Earlier {
    spec.map_or(Earlier::Lost, |spec| Earlier::Known(Box::new(spec)))
}

/// The runs of a session, last one first.
fn runs_of(state: &StateRoot, session: Uuid) -> Result<Vec<RunId>, CommandError> {
    let filter = RunFilter { session: Some(session.to_string()), ..RunFilter::default() };
    let mut runs: Vec<RunId> = list_runs(state, &filter)?.iter().map(|run| run.run).collect();
    runs.sort_by(|one, other| other.cmp(one));
    Ok(runs)
}

/// Keeps the spec of a run that is about to be removed, for the session's next run.
pub fn keep_of_run(state: &StateRoot, run: &RunDirectory) -> io::Result<()> {
    // An unreadable spec cannot be inherited later either.
    let Ok(spec) = run.spec() else { return Ok(()) };
    let kept = fs::read(state.session_terms(&spec.session)).ok();
    let kept: Option<RunSpec> = kept.and_then(|text| serde_json::from_slice(&text).ok().flatten());
    match kept {
        Some(kept) if kept.run > spec.run => Ok(()),
        _ => write(state, spec.session, Some(&spec)),
    }
}

/// Gives a copy of a session the spec of the original.
pub fn keep_for_copy(state: &StateRoot, original: Uuid, copy: Uuid) -> Result<(), CommandError> {
    let kept = match of_session(state, original)? {
        Earlier::None => return Ok(()),
        Earlier::Known(mut spec) => {
            spec.mcp_choice = mcp_choice(state, original, Some(&spec));
            Some(spec)
        }
        Earlier::Lost => None,
    };
    write(state, copy, kept.as_deref()).or_fail(|| "the limits of the copy could not be saved")
}

/// Removes the spec that [`keep_for_copy`] wrote, because the copy failed.
pub fn forget_copy(state: &StateRoot, copy: Uuid) {
    fs::remove_file(state.session_terms(&copy)).ok();
    fs::remove_dir(state.session_dir(&copy)).ok();
}

/// The user's changes to a session's MCP servers. A copy without a run has the original's changes.
pub(crate) fn mcp_choice(state: &StateRoot, session: Uuid, last: Option<&RunSpec>) -> McpChoice {
    match read_session_record(state, &session) {
        Some(record) => record.mcp,
        None => last.map(|last| last.mcp_choice.clone()).unwrap_or_default(),
    }
}

/// Replaces the file. `None` means that the session had a run, but its spec is lost.
fn write(state: &StateRoot, session: Uuid, spec: Option<&RunSpec>) -> io::Result<()> {
    let path = state.session_terms(&session);
    make_private_dir(state.session_dir(&session))?;
    replace_file(&path, &serde_json::to_vec_pretty(&spec)?, Durable::Yes)
}
