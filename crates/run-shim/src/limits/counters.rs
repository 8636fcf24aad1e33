//! Reads the kernel's counters of reached limits, and waits for them to change.
//!
//! ```text
//!   v2   memory.events, pids.events     the kernel wakes a process that polls them
//!   v1   memory.oom_control             the kernel writes to an eventfd
//!        pids.events                    no wake-up (seen on 6.18), so the shim reads it
//! ```
//!
//! A wake-up is only a reason to check. The files' content decides, and the shim reads them again at the run's end. It
//! reads files without a wake-up every second while the run uses processor time, and every four seconds once nothing
//! has run for a minute.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use run_protocol::{LimitKind, ResourceLimits};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

use super::activity::Activity;
use super::cgroups::cgroup_directory::set;
use super::rooms::Rooms;

const LOOKS_AFTER_THE_RING: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// The kernel refuses a request that would exceed the limit, so the highest use may stay this far below the limit: a
/// huge page, and each processor's reserve.
const LARGEST_CHARGE: u64 = 4 << 20;
/// The interval for files without a wake-up: refused forks in version 1, and full directories. The kernel enforces the
/// limits meanwhile.
const TICK: Duration = Duration::from_secs(1);

/// The kernel's counter files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Counters {
    Unified { group: PathBuf },
    Legacy { memory: PathBuf, pids: PathBuf },
}

impl Counters {
    /// Returns the limit that was reached, if any. Memory comes first, because a run without memory may also fail to
    /// fork.
    pub(super) fn look(&self, limits: &ResourceLimits) -> Option<LimitKind> {
        let (is_out_of_memory, refused_forks) = match self {
            Self::Unified { group } => {
                let events = read(&group.join("memory.events"));
                // Require both a kill and this limit, because a machine out of memory also kills processes in the
                // group.
                let is_out = counted(&events, "oom_kill") > 0 && counted(&events, "oom") > 0;
                (is_out, counted(&read(&group.join("pids.events")), "max"))
            }
            Self::Legacy { memory, pids } => {
                let control = read(&memory.join("memory.oom_control"));
                // Perhaps the machine was out of memory, not the run. `memory.failcnt` would tell, but newer kernels no
                // longer update it. All kernels remember the highest use.
                let was_full = |file: &str| {
                    let most = read(&memory.join(file)).trim().parse::<u64>().unwrap_or(0);
                    most.saturating_add(LARGEST_CHARGE) >= limits.memory_bytes
                };
                let is_out = counted(&control, "oom_kill") > 0
                    && (was_full("memory.max_usage_in_bytes")
                        || was_full("memory.memsw.max_usage_in_bytes"));
                (is_out, counted(&read(&pids.join("pids.events")), "max"))
            }
        };
        if is_out_of_memory && limits.memory_bytes > 0 {
            return Some(LimitKind::Memory { bytes: limits.memory_bytes });
        }
        (refused_forks > 0 && limits.processes > 0)
            .then_some(LimitKind::Processes { most: limits.processes })
    }

    /// Reports reached limits and full directories from now on, until the returned watch is dropped.
    pub(super) fn watch(
        &self,
        limits: ResourceLimits,
        rooms: Rooms,
        mut activity: Activity,
        tell: mpsc::Sender<LimitKind>,
    ) -> io::Result<OwnedFd> {
        let alarms = match self {
            Self::Unified { group } => [
                Alarm::of_file(&group.join("memory.events")),
                Alarm::of_file(&group.join("pids.events")),
            ],
            Self::Legacy { memory, pids } => {
                [Alarm::of_oom_control(memory), Alarm::of_file(&pids.join("pids.events"))]
            }
        };
        let alarms = alarms.into_iter().collect::<io::Result<Vec<_>>>()?;
        // This pipe gets no bytes. Closing it stops the watch.
        let (ending, wanted) = pipe_with(PipeFlags::CLOEXEC)?;
        let counters = self.clone();
        std::thread::Builder::new().name("limit-alarm".to_owned()).spawn(move || {
            let found = counters.wait_for_a_limit(&limits, &rooms, &mut activity, &alarms, &ending);
            if let Some(limit) = found {
                tell.blocking_send(limit).ok();
            }
        })?;
        Ok(wanted)
    }

    /// `None` if the watch has ended.
    fn wait_for_a_limit(
        &self,
        limits: &ResourceLimits,
        rooms: &Rooms,
        activity: &mut Activity,
        alarms: &[Alarm],
        ending: &OwnedFd,
    ) -> Option<LimitKind> {
        let is_woken_for_all = matches!(self, Self::Unified { .. }) && rooms.is_empty();
        let tick = |activity: &Activity| (!is_woken_for_all).then(|| activity.pause(TICK));
        let mut has_rung = false;
        let mut said = Vec::new();
        loop {
            if !has_rung && activity.unseen().is_zero() {
                has_rung = wait(alarms, ending, tick(activity))?;
                continue;
            }
            activity.look_begins();
            let said_before = std::mem::replace(&mut said, alarms.iter().map(Alarm::arm).collect());
            // Without a wake-up and without a change, there is nothing new.
            let n_looks = match has_rung {
                true => LOOKS_AFTER_THE_RING,
                false => u32::from(said != said_before),
            };
            for _ in 0..n_looks {
                if let Some(limit) = self.look(limits) {
                    return Some(limit);
                }
                // The kernel wakes the shim before it kills a process, and not again after the kill.
                if has_rung && wait(&[], ending, Some(BETWEEN_LOOKS)).is_none() {
                    return None;
                }
            }
            // Check the directories after the counters, because files that fill a directory may also use all memory.
            if let Some(limit) = rooms.full() {
                return Some(limit);
            }
            has_rung = wait(alarms, ending, tick(activity))?;
        }
    }
}

/// A kernel file that wakes the shim.
#[derive(Debug)]
enum Alarm {
    File(File),
    Event { event: OwnedFd, control: File },
}

impl Alarm {
    fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self::File(File::open(path)?))
    }

    fn of_oom_control(memory: &Path) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = File::open(memory.join("memory.oom_control"))?;
        let order = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
        set(&memory.join("cgroup.event_control"), &order)?;
        Ok(Self::Event { event, control })
    }

    /// Reads the counters. Only after that does the kernel wake the shim again.
    fn arm(&self) -> Vec<u8> {
        let file = match self {
            Self::File(file) => file,
            Self::Event { event, control } => {
                rustix::io::read(event, &mut [0; 8]).ok();
                control
            }
        };
        let mut text = [0; 512];
        let length = file.read_at(&mut text, 0).unwrap_or(0);
        text[..length].to_vec()
    }

    fn poll(&self) -> PollFd<'_> {
        match self {
            Self::File(file) => PollFd::new(file, PollFlags::PRI),
            Self::Event { event, .. } => PollFd::new(event, PollFlags::IN),
        }
    }
}

/// Waits for a wake-up or the timeout. Returns true for a wake-up, `None` if the watch has ended.
fn wait(alarms: &[Alarm], ending: &OwnedFd, limit: Option<Duration>) -> Option<bool> {
    let mut polled: Vec<PollFd<'_>> = alarms.iter().map(Alarm::poll).collect();
    polled.push(PollFd::new(ending, PollFlags::IN));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let n_rang = loop {
        match poll(&mut polled, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
            Ok(n_rang) => break n_rang,
        }
    };
    let is_ending = polled.last().is_some_and(|ending| !ending.revents().is_empty());
    (!is_ending).then_some(n_rang > 0)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the number after a name, in a file with lines like `name number`.
fn counted(text: &str, name: &str) -> u64 {
    let value =
        |line: &str| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
