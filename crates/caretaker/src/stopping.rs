//! Stopping runs from outside, and waiting until they are dead.

use std::path::Path;
use std::time::{Duration, Instant};

use run_journal::{EndQueued, Follower, LockHolder, RunDirectory, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunOutcome, StopManner};
use run_shim::control_client::{self, ControlError};
use run_shim::{Supervision, kill_without_shim, supervision};

use crate::command_error::CommandError;
use crate::talk::note;

/// How long a supervisor that holds its lock may take to open its socket, or to answer.
const COMING_UP: Duration = Duration::from_secs(10);
/// How long it may take to greet us, before we look why it does not.
const GREETING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Tells the run's supervisor; a run that is over needs no telling. A supervisor that does not answer is not needed to
/// kill a run at once: its sandbox is killed without it.
pub(crate) fn tell(
    run: &RunDirectory,
    socket: &Path,
    request: &ControlRequest,
) -> Result<(), CommandError> {
    let is_at_once = matches!(request, ControlRequest::Stop { manner: StopManner::Now });
    let deadline = Instant::now() + COMING_UP;
    let mut has_said = false;
    loop {
        if run.is_queued().unwrap_or(false) && end_queued(run, request)? == EndQueued::Ended {
            return Ok(());
        }
        let shim = match writer(run)? {
            WriterPresence::Gone(_) => return Ok(()),
            WriterPresence::Live(shim) => shim,
            WriterPresence::NotYet => None,
        };
        let error = match control_client::order_within(GREETING, socket, run.run_id(), request) {
            // Refused is said by a supervisor that is about to end anyway.
            Ok(()) | Err(ControlError::Refused(_)) => return Ok(()),
            Err(error) => error,
        };
        let is_late = Instant::now() >= deadline;
        let is_stopped =
            shim.as_ref().is_some_and(|shim| supervision(shim) == Supervision::Stopped);
        // It comes up, or went down just now, perhaps between the order and its answer: the lock tells which.
        let comes_perhaps =
            matches!(error, ControlError::Connect(_) | ControlError::Conversation(_));
        let can_do_without = is_at_once && comes_perhaps && (is_stopped || is_late);
        if let Some(shim) = shim {
            if can_do_without && kill_without(run, &shim, is_stopped)? {
                return Ok(());
            }
            if is_stopped && !is_at_once && !has_said {
                has_said = true;
                let (run, pid) = (run.run_id(), shim.pid);
                note(&format!(
                    "run {run} waits for its supervisor (process {pid}), which is stopped"
                ));
            }
        }
        if is_late || !comes_perhaps {
            return Err(does_not_listen(run, is_stopped, error));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn does_not_listen(run: &RunDirectory, is_stopped: bool, error: ControlError) -> CommandError {
    let run = run.run_id();
    if !is_stopped {
        let what = format!("the supervisor of run {run} does not listen");
        return CommandError::new(ExitCode::SupervisorFailed, what).because(error);
    }
    let what = format!("the supervisor of run {run} is stopped, so it does not listen");
    CommandError::new(ExitCode::SupervisorFailed, what).because(error).hint(format!(
        "let it go on with `kill -CONT`, or kill the run without it: caretaker kill --now {run}"
    ))
}

/// Kills the sandbox, and lets the supervisor go on, so that it ends the run. Says whether there was anything to kill.
fn kill_without(
    run: &RunDirectory,
    shim: &LockHolder,
    is_stopped: bool,
) -> Result<bool, CommandError> {
    let (id, pid) = (run.run_id(), shim.pid);
    let killed = kill_without_shim(run, shim).map_err(|error| {
        let what = format!("the sandbox of run {id} cannot be killed");
        CommandError::new(ExitCode::SupervisorFailed, what).because(error)
    })?;
    if killed {
        let why = if is_stopped { "was stopped" } else { "does not answer" };
        note(&format!(
            "the supervisor of run {id} (process {pid}) {why}; the sandbox was killed without it"
        ));
    }
    Ok(killed)
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
