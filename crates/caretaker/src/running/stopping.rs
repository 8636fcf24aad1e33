//! Stopping runs from outside, and waiting until they are dead.

use std::path::Path;

use admission::command_error::{CommandError, OrFail};
use admission::words::talk::note;
use run_journal::{Follower, RunDirectory, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunId};
use run_shim::{Given, NotGiven, Order};

/// The journal of a run says this that was cancelled while it waited in the queue.
const BEFORE_IT_BEGAN: &str = "it was cancelled before it began";

/// Tells the run's supervisor; a run that is over needs no telling. A supervisor that does not answer is not needed to
/// kill a run at once: its sandbox is killed without it.
pub(crate) fn tell(
    run: &RunDirectory,
    socket: &Path,
    request: &ControlRequest,
) -> Result<(), CommandError> {
    let id = run.run_id();
    let order = Order { run, socket, request, why_unbegun: BEFORE_IT_BEGAN };
    let given = order.give(|shim| {
        let pid = shim.pid;
        note(&format!("run {id} waits for its supervisor (process {pid}), which is stopped"));
    });
    if let Given::KilledWithout { shim, was_stopped } =
        given.map_err(|error| not_told(id, error))?
    {
        let why = if was_stopped { "was stopped" } else { "does not answer" };
        note(&format!(
            "the supervisor of run {id} (process {shim}) {why}; the sandbox was killed without it"
        ));
    }
    Ok(())
}

fn not_told(run: RunId, error: NotGiven) -> CommandError {
    match error {
        NotGiven::NotBegun => {
            let what = format!("run {run} has not begun, so there is nothing to suspend");
            CommandError::new(ExitCode::Conflict, what)
                .hint("let it wait, or end it with `caretaker kill`")
        }
        NotGiven::Queue(error) => {
            let what = format!("run {run} waits in the queue and cannot be ended");
            CommandError::new(ExitCode::Failed, what).because(error)
        }
        NotGiven::Lock(error) => {
            let what = format!("the lock of run {run} cannot be examined");
            CommandError::new(ExitCode::Failed, what).because(error)
        }
        NotGiven::Kill(error) => {
            let what = format!("the sandbox of run {run} cannot be killed");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
        NotGiven::Stopped(error) => {
            let what = format!("the supervisor of run {run} is stopped, so it does not listen");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error).hint(format!(
                "let it go on with `kill -CONT`, or kill the run without it: caretaker kill --now {run}"
            ))
        }
        NotGiven::Deaf(error) => {
            let what = format!("the supervisor of run {run} does not listen");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
        error => {
            let what = format!("the order did not reach run {run}");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
    }
}

pub(crate) fn wait_until_dead(run: &RunDirectory, socket: &Path) -> Result<(), CommandError> {
    let mut follower = Follower::new(run, socket);
    while !matches!(writer(run)?, WriterPresence::Gone(_)) {
        let woken = follower
            .wait(None)
            .or_fail(|| format!("the end of run {} cannot be waited for", run.run_id()))?;
        if woken == Woken::WriterGone {
            break;
        }
    }
    Ok(())
}

/// Whether a run's supervisor is there.
pub(crate) fn writer(run: &RunDirectory) -> Result<WriterPresence, CommandError> {
    run.writer().or_fail(|| format!("the lock of run {} cannot be examined", run.run_id()))
}
