//! Finds and ends all processes below this one, for runs without a process namespace.
//!
//! The calling process must adopt orphans (`PR_SET_CHILD_SUBREAPER`). Otherwise it would miss a process that lost its
//! parent.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

/// Some processes start others faster than this code can find them, so it stops them first. After this many searches it
/// kills them.
const MOST_LOOKS: usize = 50;

/// The longest wait for a process that this code cannot kill, such as a program that switched to another user.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Ends every process below this one. Returns when no process is left that it may end.
pub(crate) fn end_all() {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        stop_all();
        let found = below(getpid());
        if found.is_empty() {
            return;
        }
        for pid in found {
            kill(pid, Signal::SIGKILL).ok();
        }
        // The children of a dead process now belong to this one.
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status.pid().is_none() {
                break;
            }
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn stop_all() {
    let mut stopped = BTreeSet::new();
    for _ in 0..MOST_LOOKS {
        let mut fresh = below(getpid());
        fresh.retain(|pid| stopped.insert(*pid));
        if fresh.is_empty() {
            return;
        }
        for pid in fresh {
            kill(pid, Signal::SIGSTOP).ok();
        }
    }
}

/// Returns all processes below one, as far as the kernel shows them.
pub(crate) fn below(root: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut next = children(root);
    while let Some(pid) = next.pop() {
        found.push(pid);
        next.extend(children(pid));
    }
    found
}

/// Returns the children of all threads of a process.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers: Vec<i32> = lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    numbers.into_iter().map(Pid::from_raw).collect()
}
