//! Starts the shim of a run, and decides how a refusal affects the run.
//!
//! The shim, not this file, prevents a second start: it claims the run with an event, under the run's own lock, before
//! the agent can do anything. A second shim fails without any effect.

use admission::credentials::shim_environment;
use run_journal::RunDirectory;
use run_protocol::{Credentials, ExitCode, FailureClass, RunId, RunOutcome};
use run_shim::{Shim, StartShimError};

use crate::daemon::Daemon;

/// How many shims to try in a row, if each dies before it begins.
const AT_ONCE: u32 = 3;

/// The result of a start.
#[derive(Debug)]
pub(crate) enum StartOutcome {
    Started,
    /// The run is no longer waiting; its journal says why.
    Over,
    KeysMissing(Vec<String>),
    /// The start failed; try again later.
    Later(String),
}

pub(crate) fn start(
    daemon: &Daemon,
    run: RunId,
    credentials: Option<&Credentials>,
) -> StartOutcome {
    let Some(directory) = daemon.directory(run) else { return StartOutcome::Over };
    let spec = match directory.spec() {
        Ok(spec) => spec,
        Err(error) => return end(&directory, RunOutcome::SupervisorFailed, error.to_string()),
    };
    let Some(environment) = shim_environment(&daemon.host, &spec, credentials) else {
        let names = spec.queue.map(|terms| terms.keys).unwrap_or_default();
        return StartOutcome::KeysMissing(names);
    };
    let mut n_silent = 0;
    loop {
        let shim = Shim::new(&daemon.config.program, environment.clone());
        match shim.supervise_queued(&directory) {
            Ok(_) => return StartOutcome::Started,
            // The shim was killed before it began, so start another one. If every shim dies, pause.
            Err(StartShimError::Silent { .. })
                if n_silent < AT_ONCE && directory.is_queued().unwrap_or(false) =>
            {
                n_silent += 1;
                tracing::warn!(%run, "its shim died before it began; the daemon is starting another");
            }
            Err(error) => return refused(&directory, error),
        }
    }
}

fn refused(directory: &RunDirectory, error: StartShimError) -> StartOutcome {
    // Another process has started or ended the run in the meantime.
    if !directory.is_queued().unwrap_or(false) {
        return StartOutcome::Over;
    }
    match error {
        StartShimError::Refused { exit_code, message, .. } => {
            match ExitCode::from_number(exit_code) {
                // Another run holds a lock, and will release it.
                Some(ExitCode::Conflict) => StartOutcome::Later(message),
                code => end(directory, outcome_of(code), message),
            }
        }
        StartShimError::Silent { log } => {
            let last = log.lines().last().unwrap_or_default();
            StartOutcome::Later(format!("its shim ended without an answer: {last}"))
        }
        error => StartOutcome::Later(error.to_string()),
    }
}

fn end(directory: &RunDirectory, outcome: RunOutcome, why: String) -> StartOutcome {
    match directory.end_queued(outcome, why) {
        Ok(_) => StartOutcome::Over,
        Err(error) => StartOutcome::Later(error.to_string()),
    }
}

/// The outcome of a run that its shim refused with this exit code.
fn outcome_of(code: Option<ExitCode>) -> RunOutcome {
    match code {
        Some(ExitCode::NotResumable) => RunOutcome::NotResumable,
        Some(ExitCode::AgentNotExecutable | ExitCode::AgentNotFound) => RunOutcome::AgentNotStarted,
        Some(ExitCode::AuthenticationMissing) => RunOutcome::Failed { class: FailureClass::Auth },
        _ => RunOutcome::SandboxFailed,
    }
}
