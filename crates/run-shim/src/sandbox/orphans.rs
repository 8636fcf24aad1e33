//! What a dead keeper kept: the processes of the session that it began, and everything below them.
//!
//! A process that began a session of its own and then lost its parent too is not found.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use run_journal::process_started;
use rustix::process::{Signal, pidfd_send_signal};

use super::record::living;
use crate::sandbox::descendants;

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Kills all that is left of a keeper's session, and returns when nothing of it lives. Says whether anything did.
pub(super) fn end(keeper: u32, started: u64, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    let mut had_any = false;
    loop {
        let found = find(keeper, started);
        let Some((one, _)) = found.first_key_value() else { return Ok(had_any) };
        had_any = true;
        if Instant::now() >= deadline {
            let what = format!("process {one} of its agent was killed and does not die");
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

/// The living processes of the session and those below them, with their starts.
fn find(keeper: u32, started: u64) -> BTreeMap<u32, u64> {
    // The kernel gives the number of a session to no process while one of the session lives.
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
    // A caretaker that the agent itself called finishes its work.
    let others = with_descendants.filter(|pid| *pid != std::process::id());
    let living = others.filter_map(|pid| Some((pid, Stat::of(pid).filter(|stat| !stat.is_dead)?)));
    living.map(|(pid, stat)| (pid, stat.started)).collect()
}

/// The part of `/proc/PID/stat` that is needed here.
struct Stat {
    is_dead: bool,
    session: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, closing brackets too; behind the last one stand the state and then numbers.
        let (_, behind_name) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
        Some(Self {
            is_dead: matches!(*fields.first()?, "Z" | "X"),
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}
