//! Runs whose shim does not answer, seen and ended from outside.

use std::io;

use run_journal::{LockHolder, RunDirectory};

use super::record;

/// How the shim of a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervision {
    /// Somebody stopped it, by a signal or a debugger.
    Stopped,
    /// It runs, or could.
    Running,
}

/// How the process that holds a run's lock stands. One that is gone is not stopped.
pub(crate) fn supervision(shim: &LockHolder) -> Supervision {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", shim.pid)).unwrap_or_default();
    // The name may hold anything, closing brackets too; behind the last one stands the state.
    let state = stat.rsplit_once(')').and_then(|(_, behind)| behind.trim_start().chars().next());
    match state {
        Some('T' | 't') if shim.is_process(shim.pid) => Supervision::Stopped,
        _ => Supervision::Running,
    }
}

/// Kills the sandbox of a run whose shim does not answer, and returns when nothing of it lives. The shim is let go on, if
/// it was stopped: it finds its sandbox dead and the note of the order, and ends the run as cancelled. Says whether there
/// was a sandbox that lived.
pub(crate) fn kill_without_shim(run: &RunDirectory, shim: &LockHolder) -> io::Result<bool> {
    if record::has_sandbox(run.path()) {
        // Before the kill: the shim may run, and see the end at once.
        record::note_order(run.path())?;
    }
    let killed = record::end_sandbox(run.path())?;
    record::wake(shim);
    Ok(killed)
}
