//! A look at all processes of a sandbox, now and then: where no cgroup counts for us, we count.
//!
//! The kernel's limits of single processes hold each of them; that they are not too many, and do not need too much
//! together, is seen here. The nearer they come to their limit, the sooner the next look. Between two looks they may be
//! over it, which is why a cgroup is better.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use run_protocol::{LimitKind, ResourceLimits};

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(1);
/// How fast memory is taken by whoever is in a hurry.
const BYTES_A_SECOND: u64 = 2 << 30;

/// The processes of one sandbox, as its own `/proc` lists them.
#[derive(Debug, Clone)]
pub(super) struct ProcessLook {
    proc: PathBuf,
}

/// What the processes of a sandbox take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taken {
    tasks: u64,
    memory_bytes: u64,
}

impl ProcessLook {
    /// `init` is the first process of the sandbox, as we see it.
    pub(super) fn of(init: u32) -> Self {
        Self { proc: format!("/proc/{init}/root/proc").into() }
    }

    /// What is taken now, and after how long to look again.
    pub(super) fn look(&self, limits: &ResourceLimits) -> Result<Duration, LimitKind> {
        let taken = self.taken(cheap_memory);
        if limits.processes > 0 && taken.tasks > limits.processes {
            return Err(LimitKind::Processes { most: limits.processes });
        }
        if limits.memory_bytes == 0 {
            return Ok(LATEST);
        }
        let headroom = limits.memory_bytes.saturating_sub(taken.memory_bytes);
        // What processes share after a fork was counted for each. Counting right costs a walk over all their pages.
        if headroom == 0 && self.taken(fair_memory).memory_bytes > limits.memory_bytes {
            return Err(LimitKind::Memory { bytes: limits.memory_bytes });
        }
        let until_full = Duration::from_millis(headroom.saturating_mul(1000) / BYTES_A_SECOND);
        Ok((until_full / 2).clamp(SOONEST, LATEST))
    }

    fn taken(&self, memory_of: impl Fn(&Path, &str) -> Memory) -> Taken {
        let mut taken = Taken::default();
        let mut most_shared = 0;
        for entry in fs::read_dir(&self.proc).into_iter().flatten().flatten() {
            let is_process = entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
            // A process that ended since takes nothing.
            let status = is_process.then(|| fs::read_to_string(entry.path().join("status")).ok());
            let Some(Some(status)) = status else { continue };
            let memory = memory_of(&entry.path(), &status);
            taken.tasks += field(&status, "Threads:").unwrap_or(1);
            taken.memory_bytes = taken.memory_bytes.saturating_add(memory.own);
            most_shared = most_shared.max(memory.shared);
        }
        taken.memory_bytes = taken.memory_bytes.saturating_add(most_shared);
        taken
    }
}

/// Bytes of memory of one process.
struct Memory {
    own: u64,
    /// Counted once for all processes: they are most likely the same.
    shared: u64,
}

fn cheap_memory(_: &Path, status: &str) -> Memory {
    let bytes = |name| field(status, name).unwrap_or(0).saturating_mul(1024);
    Memory { own: bytes("RssAnon:"), shared: bytes("RssShmem:") }
}

/// Each page is shared out among those who have it.
fn fair_memory(process: &Path, status: &str) -> Memory {
    let Ok(rollup) = fs::read_to_string(process.join("smaps_rollup")) else {
        return cheap_memory(process, status);
    };
    let bytes = |name| field(&rollup, name).map(|kib| kib.saturating_mul(1024));
    let own = match (bytes("Pss_Anon:"), bytes("Pss_Shmem:")) {
        (Some(anonymous), shared) => anonymous.saturating_add(shared.unwrap_or(0)),
        // Kernels before 5.3 do not tell programs from what they work on.
        (None, _) => bytes("Pss:").unwrap_or(0),
    };
    Memory { own, shared: 0 }
}

/// The number behind a name, in a file of lines `Name:  number kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[path = "process_look_tests.rs"]
mod tests;
