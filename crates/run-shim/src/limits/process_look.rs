//! Counts the processes of a sandbox and their memory, if no cgroup does.
//!
//! The kernel limits each process separately. This code checks their number and their memory together. The closer they
//! are to the limit, the sooner the next check. Between two checks they may exceed it, so a cgroup is better.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use run_protocol::{LimitKind, ResourceLimits};

use super::rooms::Rooms;
use super::shared_memory::SharedMemory;

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(1);
/// The speed at which a fast program takes memory.
const BYTES_A_SECOND: u64 = 2 << 30;

/// The processes of one sandbox, from its own `/proc`, and its other memory.
#[derive(Debug, Clone)]
pub(super) struct ProcessLook {
    proc: PathBuf,
    rooms: Rooms,
    /// The list of its shared memory segments.
    segments: Option<Arc<File>>,
}

/// The use of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taken {
    tasks: u64,
    memory_bytes: u64,
}

impl ProcessLook {
    /// `init` is the sandbox's first process, by its pid on the host.
    pub(super) fn of(init: u32) -> Self {
        let proc = format!("/proc/{init}/root/proc").into();
        Self { proc, rooms: Rooms::default(), segments: None }
    }

    /// Also counts this memory.
    pub(super) fn also_count(&mut self, rooms: Rooms, segments: Option<File>) {
        self.rooms = rooms;
        self.segments = segments.map(Arc::new);
    }

    /// Checks the current use. Returns the pause until the next check, or the limit that the run reached.
    pub(super) fn look(&self, limits: &ResourceLimits) -> Result<Duration, LimitKind> {
        let taken = self.taken(cheap_memory);
        if limits.processes > 0 && taken.tasks > limits.processes {
            return Err(LimitKind::Processes { most: limits.processes });
        }
        if limits.memory_bytes == 0 {
            return Ok(LATEST);
        }
        let shared = self.shared_memory();
        let mut all = taken.memory_bytes.saturating_add(shared.bytes());
        if all > limits.memory_bytes {
            // This sum counts shared memory once for each process. An exact count must visit all their pages.
            let shared = shared.without_mapped(
                self.processes()
                    .filter_map(|process| fs::read_to_string(process.join("smaps")).ok()),
            );
            all = self.taken(fair_memory).memory_bytes.saturating_add(shared.bytes());
        }
        if all > limits.memory_bytes {
            return Err(LimitKind::Memory { bytes: limits.memory_bytes });
        }
        let headroom = limits.memory_bytes.saturating_sub(all);
        let until_full = Duration::from_millis(headroom.saturating_mul(1000) / BYTES_A_SECOND);
        Ok((until_full / 2).clamp(SOONEST, LATEST))
    }

    fn shared_memory(&self) -> SharedMemory {
        SharedMemory::of(&self.proc, &self.rooms, self.segments.as_deref())
    }

    fn processes(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let is_process =
            |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        entries.filter(is_process).map(|entry| entry.path())
    }

    fn taken(&self, memory_of: impl Fn(&Path, &str) -> u64) -> Taken {
        let mut taken = Taken::default();
        for process in self.processes() {
            // A process that ended meanwhile uses nothing.
            let Ok(status) = fs::read_to_string(process.join("status")) else { continue };
            taken.tasks += field(&status, "Threads:").unwrap_or(1);
            taken.memory_bytes = taken.memory_bytes.saturating_add(memory_of(&process, &status));
        }
        taken
    }
}

/// All memory of the process, shared or not.
fn cheap_memory(_: &Path, status: &str) -> u64 {
    let bytes = |name| field(status, name).unwrap_or(0).saturating_mul(1024);
    bytes("RssAnon:").saturating_add(bytes("RssShmem:"))
}

/// The memory of the process, with its share of each shared page.
fn fair_memory(process: &Path, status: &str) -> u64 {
    let Ok(rollup) = fs::read_to_string(process.join("smaps_rollup")) else {
        return cheap_memory(process, status);
    };
    let bytes = |name| field(&rollup, name).map(|kib| kib.saturating_mul(1024));
    match (bytes("Pss_Anon:"), bytes("Pss_Shmem:")) {
        (Some(anonymous), shared) => anonymous.saturating_add(shared.unwrap_or(0)),
        // Kernels before 5.3 do not separate files from other memory.
        (None, _) => bytes("Pss:").unwrap_or(0),
    }
}

/// Returns the number after a name, in a file with lines like `Name:  number kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[path = "process_look_tests.rs"]
mod tests;
