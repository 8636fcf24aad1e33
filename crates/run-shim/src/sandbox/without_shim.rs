//! Examines and ends runs whose shim does not answer.

use std::io;

use run_journal::{LockHolder, RunDirectory};

use super::record;

/// The state of a run's shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervision {
    /// A signal or a debugger stopped it.
    Stopped,
    /// It runs, or can run.
    Running,
}

/// Returns the state of the process that holds a run's lock. A process that is gone is not stopped.
pub(crate) fn supervision(shim: &LockHolder) -> Supervision {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", shim.pid)).unwrap_or_default();
    // The name may have any characters, even closing brackets. The state follows the last bracket.
    let state = stat.rsplit_once(')').and_then(|(_, behind)| behind.trim_start().chars().next());
    match state {
        Some('T' | 't') if shim.is_process(shim.pid) => Supervision::Stopped,
        _ => Supervision::Running,
    }
}

/// Kills the sandbox of a run whose shim does not answer, and waits until it is dead. Then it continues a stopped shim,
/// which finds its sandbox dead and the recorded order, and ends the run as cancelled. Returns true if the sandbox was
/// alive.
pub(crate) fn kill_without_shim(run: &RunDirectory, shim: &LockHolder) -> io::Result<bool> {
    if record::has_sandbox(run.path()) {
        // Record the order before the kill, because a running shim sees the sandbox's end immediately.
        record::note_order(run.path())?;
    }
    let killed = record::end_sandbox(run.path())?;
    record::wake(shim);
    Ok(killed)
}
