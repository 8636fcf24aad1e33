//! Stopping runs from outside, and waiting until they are dead.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use admission::command_error::{CommandError, OrFail};
use admission::host::{Host, overview};
use admission::words::talk::note;
use run_journal::{Follower, RunDirectory, RunOverview, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunId};
use run_shim::{Given, NotGiven, Order};

/// The journal of a run says this that was cancelled while it waited in the queue.
const BEFORE_IT_BEGAN: &str = "it was cancelled before it began";
/// How many orders are given at the same time. Far fewer supervisors than this ever fail to answer together.
const MOST_AT_ONCE: usize = 128;

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

/// Gives one order to all of these runs, and then waits for the end of each in turn: they end side by side. A supervisor
/// that does not answer delays neither the orders to the others nor their ends.
pub(crate) fn end_all<'a>(
    host: &'a Host,
    runs: &'a [RunDirectory],
    request: &ControlRequest,
) -> impl Iterator<Item = (&'a RunDirectory, Result<RunOverview, CommandError>)> {
    ends_of(host, runs, tell_all(host, runs, request))
}

/// Waits for the end of each run that was told.
pub(crate) fn ends_of<'a>(
    host: &'a Host,
    runs: &'a [RunDirectory],
    told: Vec<Result<(), CommandError>>,
) -> impl Iterator<Item = (&'a RunDirectory, Result<RunOverview, CommandError>)> {
    runs.iter().zip(told).map(|(run, told)| {
        let ended = told.and_then(|()| wait_until_dead(run, &host.control_socket(run)));
        (run, ended.and_then(|()| overview(run)))
    })
}

/// Tells the supervisors of all these runs, many of them at the same time.
pub(crate) fn tell_all(
    host: &Host,
    runs: &[RunDirectory],
    request: &ControlRequest,
) -> Vec<Result<(), CommandError>> {
    let next = AtomicUsize::new(0);
    let tell_some = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let mine = numbers.map_while(|number| Some((number, runs.get(number)?)));
        mine.map(|(number, run)| (number, tell(run, &host.control_socket(run), request)))
            .collect::<Vec<_>>()
    };
    let mut told: Vec<_> = thread::scope(|scope| {
        let n_helpers = runs.len().min(MOST_AT_ONCE).saturating_sub(1);
        // Where no more threads are to be had, this one tells all that are left.
        let start = |_| thread::Builder::new().spawn_scoped(scope, tell_some).ok();
        let helpers: Vec<_> = (0..n_helpers).map_while(start).collect();
        let mut told = tell_some();
        for helper in helpers {
            told.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        told
    });
    told.sort_by_key(|(number, _)| *number);
    told.into_iter().map(|(_, told)| told).collect()
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
