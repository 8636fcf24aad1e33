//! The first process of a sandbox. When it dies, everything in its namespace dies.
//!
//! bubblewrap binds that process to its own lifetime only at the end of its set-up. If bubblewrap dies before that, the
//! kernel gives the process to the shim, which adopts orphans (`PR_SET_CHILD_SUBREAPER`), and the shim ends it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sandbox::descendants;

/// A handle to a process. It cannot be confused with a later process with the same id.
#[derive(Debug)]
pub(super) struct FirstProcess {
    pub(super) pid: Pid,
    fd: AsyncFd<OwnedFd>,
}

impl FirstProcess {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe for types that may later name another descriptor; an owned one cannot"
    )]
    pub(super) fn open(pid: Pid) -> io::Result<Self> {
        let fd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        Ok(Self { pid, fd: AsyncFd::with_interest(fd, Interest::READABLE)? })
    }

    /// Like [`Self::open`], but fails if the process is not the first of a namespace, because its id may already belong
    /// to another process.
    pub(super) fn open_in_namespace(pid: Pid) -> io::Result<Self> {
        let first = Self::open(pid)?;
        if is_first_of_namespace(&pid.as_raw_nonzero().to_string()) {
            return Ok(first);
        }
        Err(io::ErrorKind::NotFound.into())
    }

    pub(super) fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        // If the state is unknown, the shim must not rely on the process.
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n_ended| n_ended == 0)
    }

    /// Sends a signal, unless the process is already gone.
    pub(super) fn signal(&self, signal: Signal) {
        pidfd_send_signal(self.fd.get_ref(), signal).ok();
    }

    /// Waits until every process in its namespace is dead. Cancel safe.
    pub(super) async fn ended(&self) {
        // Once readable, it stays readable. An error means that the runtime is shutting down.
        if let Ok(mut ready) = self.fd.readable().await {
            ready.retain_ready();
        }
    }

    /// Reaps a process that the kernel gave to the shim. Not for a child that the runtime started: the runtime reaps
    /// it, and by then its id would belong to another process.
    pub(super) fn reap(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        waitid(WaitId::PidFd(self.fd.get_ref().as_fd()), options).ok();
    }
}

/// Ends every sandbox that a dead bubblewrap left to the shim, and returns when they are dead.
pub(super) async fn end_adopted() {
    // The search does not find a dead process again.
    while let Some(first) = adopted() {
        let Ok(first) = FirstProcess::open(first) else {
            // If the shim has run out of descriptors, other code needs time to close some.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        tracing::warn!(pid = ?first.pid, "bubblewrap died and left its sandbox");
        first.signal(Signal::KILL);
        first.ended().await;
        first.reap();
    }
}

/// Finds a child that is the first of a process namespace. The shim itself makes no namespaces, so it must come from
/// bubblewrap.
fn adopted() -> Option<Pid> {
    let mut children = descendants::children(nix::unistd::getpid()).into_iter();
    let found = children.find(|pid| is_first_of_namespace(&pid.to_string()));
    found.and_then(|pid| Pid::from_raw(pid.as_raw()))
}

/// Returns whether a process is the first of a namespace directly below the shim's own.
fn is_first_of_namespace(pid: &str) -> bool {
    let (ours, theirs) = (numbers_in_namespaces("self"), numbers_in_namespaces(pid));
    theirs.len() == ours.len() + 1 && theirs.last().is_some_and(|last| last == "1")
}

/// Returns a process's id in each of its process namespaces, outermost first.
fn numbers_in_namespaces(pid: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn waiting_for_a_child_leaves_its_exit_code_to_the_runtime_that_started_it() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        FirstProcess::open(pid).unwrap().ended().await;
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    }
}
