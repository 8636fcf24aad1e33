//! Starting the supervisor of a run whose turn has come, and what a refusal means for the run.
//!
//! What keeps a run from being started twice is not here: the supervisor claims it under the run's own lock, with an
//! event, before the agent can do anything. Whoever comes second is refused and nothing happens.

use admission::brought::{Brought, shim_environment};
use run_journal::RunDirectory;
use run_protocol::{ExitCode, FailureClass, RunId, RunOutcome};
use run_shim::{StartShimError, start_queued_shim};

use crate::daemon::Daemon;

/// How many supervisors are started one after the other, if each dies before it begins.
const AT_ONCE: u32 = 3;

/// What came of it.
#[derive(Debug)]
pub(crate) enum StartOutcome {
    Started,
    /// It waits no more, for whatever reason: its journal tells.
    Over,
    KeysMissing(Vec<String>),
    /// To be tried again.
    Later(String),
}

pub(crate) fn start(daemon: &Daemon, run: RunId, brought: Option<&Brought>) -> StartOutcome {
    let Some(directory) = daemon.directory(run) else { return StartOutcome::Over };
    let spec = match directory.spec() {
        Ok(spec) => spec,
        Err(error) => return end(&directory, RunOutcome::SupervisorFailed, error.to_string()),
    };
    let Some(environment) = shim_environment(&daemon.host, &spec, brought) else {
        let names = spec.queue.map(|terms| terms.keys).unwrap_or_default();
        return StartOutcome::KeysMissing(names);
    };
    let mut n_silent = 0;
    loop {
        match start_queued_shim(&directory, &daemon.config.program, &environment) {
            Ok(_) => return StartOutcome::Started,
            // It was killed before it began, and another one simply begins. One that always dies is left alone for a while.
            Err(StartShimError::Silent { .. })
                if n_silent < AT_ONCE && directory.is_queued().unwrap_or(false) =>
            {
                n_silent += 1;
                tracing::warn!(%run, "its supervisor died before it began; another is started");
            }
            Err(error) => return refused(&directory, error),
        }
    }
}

fn refused(directory: &RunDirectory, error: StartShimError) -> StartOutcome {
    // Somebody was faster, or it was ended while its supervisor came up.
    if !directory.is_queued().unwrap_or(false) {
        return StartOutcome::Over;
    }
    match error {
        StartShimError::Refused { exit_code, message, .. } => {
            match ExitCode::from_number(exit_code) {
                // A lock that somebody holds is free again some day.
                Some(ExitCode::Conflict) => StartOutcome::Later(message),
                code => end(directory, outcome_of(code), message),
            }
        }
        StartShimError::Silent { log } => {
            let last = log.lines().last().unwrap_or_default();
            StartOutcome::Later(format!("its supervisor ended without a word: {last}"))
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

/// What a refusal would have meant to a command that waited for the run.
fn outcome_of(code: Option<ExitCode>) -> RunOutcome {
    match code {
        Some(ExitCode::NotResumable) => RunOutcome::NotResumable,
        Some(ExitCode::AgentNotExecutable | ExitCode::AgentNotFound) => RunOutcome::AgentNotStarted,
        Some(ExitCode::AuthenticationMissing) => RunOutcome::Failed { class: FailureClass::Auth },
        _ => RunOutcome::SandboxFailed,
    }
}
