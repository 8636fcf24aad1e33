//! Ensures one daemon per state directory: a kernel lock, and a note in the lock file with the daemon's process and
//! socket.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use run_journal::{KernelLock, LockSight, StateRoot, boot_id, process_started};
use run_protocol::BytesPath;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The daemon's note. New fields have a default and existing fields never change, because a newer program reads the
/// note of an older daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonNote {
    pub pid: u32,
    /// When the process was started, in kernel ticks since boot.
    #[serde(default)]
    pub started: Option<u64>,
    /// The kernel's id of the boot.
    #[serde(default)]
    pub boot: Option<String>,
    /// The version of its protocol.
    pub protocol: u32,
    /// The version of its program.
    #[serde(default)]
    pub version: String,
    pub socket: BytesPath,
    /// Its address on loopback, if it listens there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Milliseconds since the epoch.
    pub since_ms: u64,
}

impl DaemonNote {
    pub(crate) fn of_this_process(protocol: u32, version: &str, since_ms: u64) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: process_started(pid),
            boot: boot_id(),
            protocol,
            version: version.to_owned(),
            socket: BytesPath::from(""),
            listen: None,
            since_ms,
        }
    }

    /// True if the process with that pid is still the daemon that wrote the note.
    pub fn is_alive(&self) -> bool {
        match (self.started, process_started(self.pid)) {
            (Some(then), Some(now)) => then == now,
            (None, now) => now.is_some(),
            (Some(_), None) => false,
        }
    }
}

/// Whether a state directory has a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    None,
    /// A process holds the lock; it may not have written its note yet.
    Held(Option<DaemonNote>),
}

/// The path of the daemon's lock.
pub fn lock_path(state: &StateRoot) -> PathBuf {
    state.path().join("daemon.lock")
}

/// Checks whether the state directory has a daemon.
pub fn presence(state: &StateRoot) -> io::Result<Presence> {
    Ok(match KernelLock::look(&lock_path(state))? {
        Some(LockSight::Held(note)) => Presence::Held(note),
        Some(LockSight::Free(_)) | None => Presence::None,
    })
}

/// The held lock.
#[derive(Debug)]
pub(crate) struct Claim {
    lock: KernelLock,
}

impl Claim {
    /// Takes the lock, or returns the note of the daemon that holds it.
    pub(crate) fn new(state: &StateRoot) -> io::Result<Result<Self, Option<DaemonNote>>> {
        let path = lock_path(state);
        Ok(match KernelLock::try_take(&path)? {
            Some(lock) => Ok(Self { lock }),
            None => Err(KernelLock::note(&path)?),
        })
    }

    /// Writes the note, once clients can connect.
    pub(crate) fn announce(&self, note: &DaemonNote) -> io::Result<()> {
        self.lock.set_note(note)
    }
}

/// The result of asking a daemon to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Gone,
    /// The daemon did not end in time.
    StillThere,
}

/// Asks a daemon to end, and waits for it. Live runs continue.
pub fn stop(note: &DaemonNote, patience: Duration) -> io::Result<Stopped> {
    let Some(pid) = i32::try_from(note.pid).ok().and_then(Pid::from_raw) else {
        return Ok(Stopped::Gone);
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(Stopped::Gone),
        Err(errno) => return Err(errno.into()),
    };
    // Check after opening: from now on the kernel cannot reuse the pid.
    if !note.is_alive() {
        return Ok(Stopped::Gone);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) => {}
        Err(Errno::SRCH) => return Ok(Stopped::Gone),
        Err(errno) => return Err(errno.into()),
    }
    let milliseconds = u16::try_from(patience.as_millis()).unwrap_or(u16::MAX);
    let mut watched = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    let n_ended = poll(&mut watched, PollTimeout::from(milliseconds))?;
    Ok(if n_ended > 0 { Stopped::Gone } else { Stopped::StillThere })
}
