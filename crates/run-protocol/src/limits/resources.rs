//! The limits on a run's use of the machine, and the mechanism that enforces them.

use serde::{Deserialize, Serialize};

use crate::RunRequest;

/// The limits on a run's use of the machine, as requested. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// Memory of all processes of the run together, including its in-memory file systems.
    pub memory_bytes: u64,
    /// Processes and threads at any moment.
    pub processes: u64,
    /// Its share of a busy processor; by default, every process has 100.
    pub cpu_weight: u64,
    /// The most processor time, in thousandths of a processor.
    pub cpu_milli: u64,
    /// The largest file that the run may write.
    pub file_bytes: u64,
    /// The most files that one process may have open.
    pub open_files: u64,
    /// The most that the run may add to the workspace, to other writable directories of the host, and to its own
    /// record.
    pub disk_bytes: u64,
    /// True if Caretaker must refuse the run when this host cannot limit the memory and processes of the whole run.
    pub required: bool,
}

impl ResourceLimits {
    /// Replaces the limits that the request names.
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

/// The mechanism that enforces a run's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitBackend {
    /// Caretaker's own directory in a cgroup v2 tree that is delegated to the user.
    CgroupV2,
    /// A scope that systemd made for the run.
    SystemdScope,
    /// Caretaker's own directories in the cgroup v1 trees; only root can create them.
    CgroupV1,
    /// Per-process limits, and a regular check of all processes together.
    Rlimits,
}

/// The limits in force for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LimitsInForce {
    /// The mechanism.
    pub backend: LimitBackend,
    /// The limits that the mechanism enforces. A limit that was requested and is zero here is not enforced.
    pub held: ResourceLimits,
}
