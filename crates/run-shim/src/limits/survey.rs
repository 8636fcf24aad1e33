//! Finds the limits that this host can enforce: sets them for real, and undoes them.

use std::process::{Command, Stdio};

use run_protocol::{LimitBackend, ResourceLimits};

use super::cgroups::hierarchy::Hierarchies;
use super::cgroups::{version1, version2};
use super::{Means, find_means};

/// The result of the survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSurvey {
    pub backend: LimitBackend,
    /// True if the host can limit processors.
    pub has_cpu: bool,
    /// The mechanisms that were tried before `backend` and failed, each with the reason.
    pub refused: Vec<String>,
    /// The number of dead shims' groups that the survey removed.
    pub swept: usize,
}

/// Harmless limits, to see whether they can be set.
const TRIAL: ResourceLimits = ResourceLimits {
    memory_bytes: 1 << 30,
    processes: 64,
    cpu_weight: 100,
    cpu_milli: 1000,
    file_bytes: 0,
    open_files: 0,
    disk_bytes: 0,
    required: false,
};

/// Tries the same mechanisms as a run, in the same order, and leaves nothing behind.
pub fn survey_limits() -> LimitSurvey {
    let swept = Hierarchies::of_this_process().map_or(0, |hierarchies| {
        let unified = hierarchies.unified.as_ref().map_or(0, version2::sweep_all);
        unified + version1::sweep_all(&hierarchies)
    });
    let id = format!("trial-{}", std::process::id());
    let (means, mut refused) = find_means(&id, &TRIAL);
    let (backend, has_cpu) = match &means {
        Means::Unified { held, .. } => (LimitBackend::CgroupV2, held.cpu_milli > 0),
        Means::Legacy { held, .. } => (LimitBackend::CgroupV1, held.cpu_milli > 0),
        Means::Scope(maker) => match around_a_child(|pid| maker.make(&[pid], &TRIAL)) {
            Ok(_) => (LimitBackend::SystemdScope, true),
            Err(error) => {
                refused.push(format!("systemd scope: {error}"));
                (LimitBackend::Rlimits, false)
            }
        },
        Means::Processes => (LimitBackend::Rlimits, false),
    };
    LimitSurvey { backend, has_cpu, refused, swept }
}

/// Tries `act` on a child process that does nothing, and then ends the child.
fn around_a_child<T>(act: impl FnOnce(u32) -> std::io::Result<T>) -> std::io::Result<T> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read line"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let outcome = act(child.id());
    child.kill().ok();
    child.wait().ok();
    outcome
}
