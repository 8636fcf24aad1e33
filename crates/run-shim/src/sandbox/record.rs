//! Records the first process of a run's sandbox in the run's directory. Other commands use it to end the sandbox if the
//! shim is dead or does not answer.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ground::{Durable, replace_file};
use run_journal::{LockHolder, boot_id, process_started};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::orphans;
use super::process::pid_number;

const FILE: &str = "sandbox.json";
/// The file that records an order to kill the sandbox without the shim.
const ORDER_FILE: &str = "killed-on-order";
/// The longest wait for a killed process to die. A process that takes longer is stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pid: u32,
    /// The process's start time in the kernel's ticks, and the machine's boot. Together they distinguish it from a
    /// later process with the same id.
    started: Option<u64>,
    boot: Option<String>,
    pub(super) ends: Ends,
}

/// The way to end the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ends {
    /// A namespace dies with its first process.
    WithItsFirst,
    /// A keeper ends the processes that it keeps, and then exits.
    WhenAsked,
}

impl Ends {
    pub(super) fn signal(self) -> Signal {
        match self {
            Self::WithItsFirst => Signal::KILL,
            Self::WhenAsked => Signal::TERM,
        }
    }
}

impl SandboxRecord {
    pub(super) fn of(first: Pid, ends: Ends) -> Self {
        let pid = pid_number(first);
        Self { pid, started: process_started(pid), boot: boot_id(), ends }
    }

    pub(super) fn write(&self, run_dir: &Path) -> io::Result<()> {
        let path = path_in(run_dir);
        // An earlier order does not apply to this sandbox.
        forget_order(run_dir)?;
        replace_file(&path, &serde_json::to_vec(self)?, Durable::No)
    }

    /// `None` if there never was a sandbox, or its shim has seen its end.
    fn read(run_dir: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(path_in(run_dir)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the processes a dead keeper left behind, and waits until they are dead. Returns true if any was alive.
    pub(super) fn end_kept(&self) -> io::Result<bool> {
        match (self.ends, self.started) {
            (Ends::WhenAsked, Some(started)) if self.boot == boot_id() => {
                orphans::end(self.pid, started, PATIENCE)
            }
            _ => Ok(false),
        }
    }

    /// Returns the process, if it is alive and is the recorded one.
    fn living(&self) -> Option<OwnedFd> {
        living(self.pid, || self.boot == boot_id() && self.started == process_started(self.pid))
    }
}

/// Removes the record of a dead sandbox.
pub(crate) fn forget_sandbox(run_dir: &Path) {
    std::fs::remove_file(path_in(run_dir)).ok();
    forget_order(run_dir).ok();
}

/// Records for the shim that a user ordered its sandbox to be killed.
pub(super) fn note_order(run_dir: &Path) -> io::Result<()> {
    std::fs::write(run_dir.join(ORDER_FILE), "")
}

/// Returns whether a command killed the sandbox without the shim.
pub(crate) fn was_killed_on_order(run_dir: &Path) -> bool {
    run_dir.join(ORDER_FILE).exists()
}

fn forget_order(run_dir: &Path) -> io::Result<()> {
    match std::fs::remove_file(run_dir.join(ORDER_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn has_sandbox(run_dir: &Path) -> bool {
    path_in(run_dir).exists()
}

/// Ends the sandbox of a run without its shim, and waits until it is dead. Returns true if any process was alive.
pub(crate) fn end_sandbox(run_dir: &Path) -> io::Result<bool> {
    let Some(record) = SandboxRecord::read(run_dir)? else { return Ok(false) };
    let had_first = end_first(&record)?;
    let had_others = record.end_kept()?;
    Ok(had_first || had_others)
}

fn end_first(record: &SandboxRecord) -> io::Result<bool> {
    let Some(first) = record.living() else { return Ok(false) };
    pidfd_send_signal(&first, record.ends.signal()).ok();
    // A stopped keeper gets no signal until it continues.
    pidfd_send_signal(&first, Signal::CONT).ok();
    match wait_for_end(&first)? {
        0 => Err(io::Error::other(format!(
            "killed process {} of the sandbox, but it did not exit",
            record.pid
        ))),
        _ => Ok(true),
    }
}

/// Waits until the sandbox of a dead shim is dead too. The kernel ends it together with the shim, but on a busy machine
/// this takes a moment.
pub(crate) fn outlive_sandbox(run_dir: &Path) {
    let record = SandboxRecord::read(run_dir).ok().flatten();
    if let Some(first) = record.and_then(|record| record.living()) {
        wait_for_end(&first).ok();
    }
}

/// Returns 0 if the process is still alive after a while.
fn wait_for_end(process: &OwnedFd) -> io::Result<usize> {
    let limit = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    Ok(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit))?)
}

/// Continues a stopped shim.
pub(super) fn wake(shim: &LockHolder) {
    if let Some(process) = living(shim.pid, || shim.is_process(shim.pid)) {
        pidfd_send_signal(&process, Signal::CONT).ok();
    }
}

/// Opens the process with this id, then calls `is_it` to check that it is the right one. Once opened, the handle cannot
/// refer to another process.
pub(super) fn living(pid: u32, is_it: impl FnOnce() -> bool) -> Option<OwnedFd> {
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    is_it().then_some(process)
}

fn path_in(run_dir: &Path) -> PathBuf {
    run_dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use format_fixtures::{Layout, check};

    use super::*;

    #[test]
    fn a_record_of_version_1_is_read_in_full() {
        check::<SandboxRecord>(&["v1/state/runs/*/sandbox.json"], Layout::Compact);
    }

    #[test]
    fn only_the_recorded_process_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let record = SandboxRecord::of(pid, Ends::WithItsFirst);
        let others = [
            SandboxRecord { started: record.started.map(|ticks| ticks + 1), ..record.clone() },
            SandboxRecord { boot: Some("another start".to_owned()), ..record.clone() },
            SandboxRecord { started: None, ..record.clone() },
        ];
        assert!(!end_sandbox(directory.path()).unwrap(), "there is no record");
        for other in others {
            other.write(directory.path()).unwrap();
            assert!(!end_sandbox(directory.path()).unwrap(), "{other:?}");
            assert_eq!(child.try_wait().unwrap(), None, "{other:?}");
        }
        record.write(directory.path()).unwrap();
        assert!(end_sandbox(directory.path()).unwrap());
        assert!(!child.wait().unwrap().success());
        assert!(!end_sandbox(directory.path()).unwrap(), "it is already dead");
        forget_sandbox(directory.path());
        assert!(!has_sandbox(directory.path()));
    }
}
