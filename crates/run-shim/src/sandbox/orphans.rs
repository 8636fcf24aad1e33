//! Finds the processes that a dead keeper left: those of its session, and everything below them.
//!
//! It cannot find a process that started its own session and then lost its parent too.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use run_journal::process_started;
use rustix::process::{Signal, pidfd_send_signal};

use super::record::living;
use crate::sandbox::descendants;

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Kills the rest of a keeper's session, and waits until it is dead. Returns true if any process was alive.
pub(super) fn end(keeper: u32, started: u64, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    let mut had_any = false;
    loop {
        let found = find(keeper, started);
        let Some((one, _)) = found.first_key_value() else { return Ok(had_any) };
        had_any = true;
        if Instant::now() >= deadline {
            let what = format!("process {one} of its agent got SIGKILL, but did not exit");
            return Err(io::Error::other(what));
        }
        for (pid, started) in found {
            if let Some(process) = living(pid, || process_started(pid) == Some(started)) {
                pidfd_send_signal(&process, Signal::KILL).ok();
            }
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The living processes of the session and those below them, with their start times.
fn find(keeper: u32, started: u64) -> BTreeMap<u32, u64> {
    // While a process of the session is alive, the kernel does not reuse the session's id.
    if process_started(keeper).is_some_and(|now| now != started) {
        return BTreeMap::new();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let members = pids.filter(|pid| {
        let stat = Stat::of(*pid);
        stat.is_some_and(|stat| stat.session == keeper && stat.started >= started)
    });
    let with_descendants = members.flat_map(|pid| {
        let below = descendants::below(nix::unistd::Pid::from_raw(pid.cast_signed()));
        below.into_iter().map(|pid| pid.as_raw().unsigned_abs()).chain([pid])
    });
    // If the agent called `caretaker` itself, that process may finish its work.
    let others = with_descendants.filter(|pid| *pid != std::process::id());
    let living = others.filter_map(|pid| Some((pid, Stat::of(pid).filter(|stat| !stat.is_dead)?)));
    living.map(|(pid, stat)| (pid, stat.started)).collect()
}

/// The part of `/proc/PID/stat` that this code needs.
struct Stat {
    is_dead: bool,
    session: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have any characters, even closing brackets. The state and the numbers follow the last bracket.
        let (_, behind_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
        Some(Self {
            is_dead: matches!(*fields.first()?, "Z" | "X"),
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}
