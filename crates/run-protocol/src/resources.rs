//! What a run may take of the machine, and what holds it to that.

use serde::{Deserialize, Serialize};

use crate::RunRequest;

/// What a run may take of the machine, as it was asked for. Zero means: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// Memory of all its processes together, its memory file systems included.
    pub memory_bytes: u64,
    /// Processes and threads at any moment.
    pub processes: u64,
    /// Its share of a busy processor; 100 is everybody's.
    pub cpu_weight: u64,
    /// Thousandths of a processor that it may use at most.
    pub cpu_milli: u64,
    /// The size of any one file that it writes.
    pub file_bytes: u64,
    /// Files that one process may have open.
    pub open_files: u64,
    /// What it may add to the directories of the host that it can write, the workspace first of all, and to our record of it.
    pub disk_bytes: u64,
    /// Whether the run is refused where nothing holds memory and processes for all of it together.
    pub required: bool,
}

impl ResourceLimits {
    /// Puts what a request asks for in the place of what there was.
    pub fn set(&mut self, request: &RunRequest) {
        let asked = [
            (&mut self.memory_bytes, request.memory.map(|limit| limit.0)),
            (&mut self.processes, request.processes.map(|limit| limit.0)),
            (&mut self.cpu_milli, request.cpus.map(|limit| limit.0)),
            (&mut self.file_bytes, request.max_file_size.map(|limit| limit.0)),
            (&mut self.disk_bytes, request.disk.map(|limit| limit.0)),
        ];
        for (limit, asked) in asked {
            *limit = asked.unwrap_or(*limit);
        }
    }
}

/// What holds a run to its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitBackend {
    /// A directory of our own in a cgroup v2 tree that was given into our hands.
    CgroupV2,
    /// A scope that systemd made for the run.
    SystemdScope,
    /// Directories of our own in the trees of cgroup v1; only root can have them.
    CgroupV1,
    /// Limits of each process, and a look at all of them now and then.
    Rlimits,
}

/// What is in force for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LimitsInForce {
    /// By what.
    pub backend: LimitBackend,
    /// What really holds: a limit that was asked for and is zero here does not.
    pub held: ResourceLimits,
}
