//! The process that supervises a run: found by the note in the run's lock, and waited for without being asked.

use std::os::fd::OwnedFd;

use run_journal::LockHolder;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use tokio::io::unix::AsyncFd;

use crate::pollable::pollable;

/// The process that holds a lock, if it is one that can be watched, and is that one.
pub(crate) fn open_process(holder: &LockHolder) -> Option<(AsyncFd<OwnedFd>, Pid)> {
    let pid = Pid::from_raw(i32::try_from(holder.pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Checked after it was opened: the number cannot be given to another now.
    if !holder.is_process(holder.pid) {
        return None;
    }
    Some((pollable(process).ok()?, pid))
}

/// Returns when the process is gone, its locks let go, and if it was a child of ours, remembered by nobody.
pub(crate) async fn wait_for_end(process: AsyncFd<OwnedFd>, pid: Pid) {
    process.readable().await.map(drop).ok();
    waitpid(Some(pid), WaitOptions::NOHANG).ok();
}
