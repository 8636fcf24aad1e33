//! Stops runs from the outside, and waits until they are dead.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use admission::command_error::{CommandError, OrFail};
use admission::host::{Host, overview};
use admission::words::talk::{note, say};
use run_journal::{Follower, RunDirectory, RunOverview, Woken, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunId};
use run_shim::{Given, NotGiven, Order};

use crate::running::run_report;
use crate::view::words;

/// The journal's reason for a run that was cancelled in the queue.
const BEFORE_IT_BEGAN: &str = "it was cancelled before it began";
/// How many requests to send at the same time. Far fewer shims than this are unresponsive at any one time.
const MOST_AT_ONCE: usize = 128;

/// Sends the request to the run's shim, unless the run has ended. An immediate kill does not depend on the shim: if it
/// does not answer, this kills the sandbox itself.
pub(crate) fn tell(
    run: &RunDirectory,
    socket: &Path,
    request: &ControlRequest,
) -> Result<(), CommandError> {
    let id = run.run_id();
    let order = Order { run, socket, request, why_unbegun: BEFORE_IT_BEGAN };
    let given = order.give(|shim| {
        let pid = shim.pid;
        note(&format!("waiting for the supervisor of run {id} (process {pid}), which is stopped"));
    });
    if let Given::KilledWithout { shim, was_stopped } =
        given.map_err(|error| not_told(id, error))?
    {
        let why = if was_stopped { "was stopped" } else { "does not answer" };
        note(&format!(
            "the supervisor of run {id} (process {shim}) {why}; killed the sandbox without it"
        ));
    }
    Ok(())
}

fn not_told(run: RunId, error: NotGiven) -> CommandError {
    match error {
        NotGiven::NotBegun => {
            let what = format!("run {run} has not started, so there is nothing to suspend");
            CommandError::new(ExitCode::Conflict, what)
                .hint("leave it in the queue, or cancel it with `caretaker kill`")
        }
        NotGiven::Queue(error) => {
            let what = format!("cannot cancel queued run {run}");
            CommandError::new(ExitCode::Failed, what).because(error)
        }
        NotGiven::Lock(error) => {
            let what = format!("cannot check the lock of run {run}");
            CommandError::new(ExitCode::Failed, what).because(error)
        }
        NotGiven::Kill(error) => {
            let what = format!("cannot kill the sandbox of run {run}");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
        NotGiven::Stopped(error) => {
            let what = format!("the supervisor of run {run} is stopped (SIGSTOP)");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error).hint(format!(
                "continue it with `kill -CONT`, or kill the run without it: caretaker kill --now {run}"
            ))
        }
        NotGiven::Deaf(error) => {
            let what = format!("the supervisor of run {run} does not answer");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
        error => {
            let what = format!("could not reach run {run}");
            CommandError::new(ExitCode::SupervisorFailed, what).because(error)
        }
    }
}

/// Sends one request to all these runs, then waits for each in turn while they all end in parallel. A shim that does
/// not answer delays neither the requests to the others nor their ends.
pub(crate) fn end_all<'a>(
    host: &'a Host,
    runs: &'a [RunDirectory],
    request: &ControlRequest,
) -> impl Iterator<Item = (&'a RunDirectory, Result<RunOverview, CommandError>)> {
    ends_of(host, runs, tell_all(host, runs, request))
}

/// Waits for the end of each run that got the request.
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

/// Prints each run as it ends, and returns the exit codes of runs that could not be stopped.
pub(crate) fn report_ends<'a>(
    ends: impl Iterator<Item = (&'a RunDirectory, Result<RunOverview, CommandError>)>,
    is_json: bool,
) -> Result<Vec<ExitCode>, CommandError> {
    let mut codes = Vec::new();
    for (run, ended) in ends {
        match ended {
            Ok(overview) if is_json => drop(run_report::print(run, &overview)?),
            Ok(overview) => {
                say(&format!("run {}: {}", run.run_id(), words::state(&overview.state)));
            }
            Err(error) => codes.push(error.report()),
        }
    }
    Ok(codes)
}

/// Sends the request to the shims of all these runs, many at the same time.
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
        // If no more threads can start, this thread does the rest.
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
            .or_fail(|| format!("cannot wait for the end of run {}", run.run_id()))?;
        if woken == Woken::WriterGone {
            break;
        }
    }
    Ok(())
}

/// Checks whether a run's shim is alive.
pub(crate) fn writer(run: &RunDirectory) -> Result<WriterPresence, CommandError> {
    run.writer().or_fail(|| format!("cannot check the lock of run {}", run.run_id()))
}
