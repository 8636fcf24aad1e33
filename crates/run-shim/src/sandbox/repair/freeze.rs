//! Stops every process of a sandbox for a moment, and lets them continue.
//!
//! The cgroup v2 freezer does this in one step. Without it, the shim stops each process with a signal. The cgroup v1
//! freezer is not an option: a process in it cannot be killed, so a sandbox would survive the shim's death.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::libc;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// Every process must be stopped in this many rounds in a row, because a process that starts others may hide from a
/// single round.
const CALM_ROUNDS: u32 = 2;
/// The calls in which a thread waits for a child that shares its memory. The kernel does not stop such a thread, but
/// the thread cannot continue until the child does.
#[cfg(target_arch = "x86_64")]
const WAITS_FOR_CHILD: [libc::c_long; 3] = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
#[cfg(not(target_arch = "x86_64"))]
const WAITS_FOR_CHILD: [libc::c_long; 2] = [libc::SYS_clone, libc::SYS_clone3];

/// A sandbox that is not running. It stays that way until [`Frozen::thaw`], or until it is killed.
#[derive(Debug)]
pub(super) struct Frozen {
    init: u32,
    means: Means,
}

#[derive(Debug)]
enum Means {
    Group(PathBuf),
    /// The processes that the shim stopped. Others may have been stopped before.
    Signals(BTreeSet<Process>),
}

/// A process, with its start time, because another process may get the same id later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    started: u64,
}

/// Freezes the processes at and below `init`. `group` is their cgroup v2, if they have one.
pub(super) fn freeze(init: u32, group: Option<&Path>, until: Instant) -> io::Result<Frozen> {
    if let Some(group) = group
        && fs::write(group.join("cgroup.freeze"), "1").is_ok()
    {
        let frozen = Frozen { init, means: Means::Group(group.to_owned()) };
        wait(until, || frozen.holds())?;
        return Ok(frozen);
    }
    let (mut stopped, mut n_calm) = (BTreeSet::new(), 0);
    wait(until, || {
        let members = members(init);
        n_calm = if stand_still(&members, &stopped) { n_calm + 1 } else { 0 };
        // A process that waits for its child stops as soon as the child lets it continue, but only if it has the
        // signal.
        for process in members.into_iter().filter(|process| process.state() != State::Stopped) {
            if process.signal(Signal::STOP).is_ok() {
                stopped.insert(process);
            }
        }
        n_calm >= CALM_ROUNDS
    })?;
    Ok(Frozen { init, means: Means::Signals(stopped) })
}

impl Frozen {
    /// Returns whether all processes are still stopped.
    pub(super) fn holds(&self) -> bool {
        match &self.means {
            Means::Group(group) => {
                let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
                events.lines().any(|line| line == "frozen 1")
            }
            Means::Signals(stopped) => stand_still(&members(self.init), stopped),
        }
    }

    /// Lets the processes that the shim stopped continue.
    pub(super) fn thaw(self) -> io::Result<()> {
        match self.means {
            Means::Group(group) => fs::write(group.join("cgroup.freeze"), "0"),
            Means::Signals(stopped) => {
                stopped.iter().for_each(|process| drop(process.signal(Signal::CONT)));
                Ok(())
            }
        }
    }
}

fn wait(until: Instant, mut is_done: impl FnMut() -> bool) -> io::Result<()> {
    while !is_done() {
        if Instant::now() >= until {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its processes did not stop in time",
            ));
        }
        sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

/// Returns whether none of these processes can run. The processes in `stopped` have received the signal to stop.
fn stand_still(members: &[Process], stopped: &BTreeSet<Process>) -> bool {
    members.iter().all(|process| match process.state() {
        State::Stopped => true,
        State::WaitsForChild => stopped.contains(process),
        State::Runs => false,
    })
}

/// The state of a process or a thread. The states are ordered by liveliness, least lively first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It is stopped, or gone.
    Stopped,
    WaitsForChild,
    Runs,
}

impl Process {
    /// Signals the process, but never a later one with the same id.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        match stat(Path::new(&format!("/proc/{}/stat", self.pid))) {
            Some(found) if found.started == self.started => {
                Ok(pidfd_send_signal(&process, signal)?)
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the state of its liveliest thread.
    fn state(&self) -> State {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let states = tasks.flatten().map(|task| {
            match stat(&task.path().join("stat")).map(|stat| stat.state) {
                None | Some(b'T' | b't' | b'Z' | b'X') => State::Stopped,
                Some(b'D') if waits_for_child(&task.path()) => State::WaitsForChild,
                Some(_) => State::Runs,
            }
        });
        states.max().unwrap_or(State::Stopped)
    }
}

fn waits_for_child(task: &Path) -> bool {
    let call = fs::read_to_string(task.join("syscall")).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| WAITS_FOR_CHILD.contains(&number))
}

/// Returns `init` and everything below it.
fn members(init: u32) -> Vec<Process> {
    let mut below: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = pid else { continue };
        let Some(Stat { parent, started, .. }) = stat(&entry.path().join("stat")) else { continue };
        let process = Process { pid, started };
        match u32::try_from(pid) == Ok(init) {
            true => members.push(process),
            false => below.entry(parent).or_default().push(process),
        }
    }
    let mut next = 0;
    while let Some(process) = members.get(next) {
        members.extend(below.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    members
}

struct Stat {
    state: u8,
    parent: i32,
    started: u64,
}

/// Reads the kernel's line about a process or thread: `pid (name) state parent … started …`.
fn stat(path: &Path) -> Option<Stat> {
    let text = fs::read(path).ok()?;
    // The name may contain anything, even a parenthesis.
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = std::str::from_utf8(text.get(after_name..)?).ok()?;
    let mut fields = fields.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { state, parent, started: fields.nth(17)?.parse().ok()? })
}

#[cfg(test)]
#[path = "freeze_tests.rs"]
mod tests;
