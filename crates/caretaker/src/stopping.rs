//! Stopping runs from outside, and waiting until they are dead.

use std::path::Path;
use std::time::{Duration, Instant};

use run_journal::{EndQueued, Follower, RunDirectory, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunOutcome};
use run_shim::control_client::{self, ControlError};

use crate::command_error::CommandError;

/// How long a supervisor that holds its lock may take to open its socket.
const COMING_UP: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Tells the run's supervisor; a run that is over needs no telling.
pub(crate) fn tell(
    run: &RunDirectory,
    socket: &Path,
    request: &ControlRequest,
) -> Result<(), CommandError> {
    let deadline = Instant::now() + COMING_UP;
    loop {
        if run.is_queued().unwrap_or(false) && end_queued(run, request)? == EndQueued::Ended {
            return Ok(());
        }
        match writer(run)? {
            WriterPresence::Gone(_) => return Ok(()),
            WriterPresence::NotYet | WriterPresence::Live(_) => {}
        }
        match control_client::order(socket, run.run_id(), request) {
            // Refused is said by a supervisor that is about to end anyway.
            Ok(()) | Err(ControlError::Refused(_)) => return Ok(()),
            // It comes up, or went down just now, perhaps between the order and its answer: the lock tells which.
            Err(ControlError::Connect(_) | ControlError::Conversation(_))
                if Instant::now() < deadline =>
            {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => {
                let what = format!("the supervisor of run {} does not listen", run.run_id());
                return Err(CommandError::new(ExitCode::SupervisorFailed, what).because(error));
            }
        }
    }
}

/// A run that waits in the queue has no supervisor to tell.
fn end_queued(run: &RunDirectory, request: &ControlRequest) -> Result<EndQueued, CommandError> {
    if !matches!(request, ControlRequest::Stop { .. }) {
        let what = format!("run {} has not begun, so there is nothing to suspend", run.run_id());
        return Err(CommandError::new(ExitCode::Conflict, what)
            .hint("let it wait, or end it with `caretaker kill`"));
    }
    let why = "it was cancelled before it began".to_owned();
    run.end_queued(RunOutcome::Cancelled, why).map_err(|error| {
        let what = format!("run {} waits in the queue and cannot be ended", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    })
}

pub(crate) fn wait_until_dead(run: &RunDirectory, socket: &Path) -> Result<(), CommandError> {
    let cannot = |error| {
        let what = format!("the end of run {} cannot be waited for", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    };
    let mut follower = Follower::new(run, socket);
    while !matches!(writer(run)?, WriterPresence::Gone(_)) {
        if follower.wait(None).map_err(cannot)? == Woken::WriterGone {
            break;
        }
    }
    Ok(())
}

fn writer(run: &RunDirectory) -> Result<WriterPresence, CommandError> {
    run.writer().map_err(|error| {
        let what = format!("the lock of run {} cannot be examined", run.run_id());
        CommandError::new(ExitCode::Failed, what).because(error)
    })
}
