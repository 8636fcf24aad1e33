//! Finds the shim of a run through the note in the run's lock, and watches it with a pidfd.

use std::os::fd::OwnedFd;

use run_journal::LockHolder;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use tokio::io::unix::AsyncFd;

use crate::run_watch::pollable::pollable;

/// Opens the process that holds a lock, if the daemon can watch it and it is still the same process.
pub(crate) fn open_process(holder: &LockHolder) -> Option<(AsyncFd<OwnedFd>, Pid)> {
    let pid = Pid::from_raw(i32::try_from(holder.pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Check after opening: from now on the kernel cannot reuse the pid.
    if !holder.is_process(holder.pid) {
        return None;
    }
    Some((pollable(process).ok()?, pid))
}

/// Returns when the process is gone and its locks are free. Reaps it if it was a child of this process.
pub(crate) async fn wait_for_end(process: AsyncFd<OwnedFd>, pid: Pid) {
    process.readable().await.map(drop).ok();
    waitpid(Some(pid), WaitOptions::NOHANG).ok();
}
