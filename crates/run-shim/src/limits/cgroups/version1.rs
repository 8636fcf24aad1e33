//! Groups in the cgroup v1 trees, one for each controller, below the shim's own groups. So limits on the shim also
//! apply to its runs. Only root can make them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use run_protocol::ResourceLimits;

use super::cgroup_directory::{CgroupDirectory, sweep};
use super::hierarchy::Hierarchies;
use super::version2::CPU_PERIOD_US;
use crate::limits::Entrance;

/// Version 1's value for a weight of 100.
const USUAL_SHARES: u64 = 1024;

/// The groups of a run.
#[derive(Debug)]
pub(in crate::limits) struct LegacyGroups {
    /// The directories, each once. Several controllers may share a mount.
    directories: Vec<CgroupDirectory>,
    pub(in crate::limits) memory: PathBuf,
    pub(in crate::limits) pids: PathBuf,
    /// The kernel's file with the run's processor time.
    pub(in crate::limits) usage: Option<PathBuf>,
}

impl LegacyGroups {
    /// Makes the groups of a run and sets their limits. An error explains why it cannot.
    pub(in crate::limits) fn create(
        hierarchies: &Hierarchies,
        id: &str,
        limits: &ResourceLimits,
    ) -> Result<(Self, ResourceLimits), String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can make groups in cgroup v1".to_owned());
        }
        let parent = |controller: &str| {
            let placement = hierarchies.legacy.get(controller);
            placement
                .map(|placement| placement.own.as_path())
                .ok_or_else(|| format!("the controller `{controller}` is not mounted"))
        };
        let (memory_parent, pids_parent) = (parent("memory")?, parent("pids")?);
        let mut directories = Vec::new();
        let failed =
            |parent: &Path, error: io::Error| format!("below `{}`: {error}", parent.display());
        let mut make = |parent: &Path| {
            make_once(&mut directories, parent, id).map_err(|error| failed(parent, error))
        };
        let (memory, pids) = (make(memory_parent)?, make(pids_parent)?);
        // Weights and quotas are useful, but a run is safe without them.
        let cpu = parent("cpu").ok().and_then(|parent| make(parent).ok());
        let usage = parent("cpuacct").ok().and_then(|parent| make(parent).ok());
        let usage = usage.map(|group| group.join("cpuacct.usage"));
        let groups = Self { directories, memory, pids, usage };
        let held = groups.apply(cpu.as_deref(), limits).map_err(|error| error.to_string())?;
        Ok((groups, held))
    }

    /// Returns the files that a thread uses to move itself into all groups.
    pub(in crate::limits) fn entrance(&self) -> Entrance {
        let tasks = self.directories.iter().map(|directory| directory.path().join("tasks"));
        Entrance::by(tasks.filter_map(|path| File::options().write(true).open(path).ok()).collect())
    }

    /// Moves processes into all groups.
    pub(in crate::limits) fn add(&self, pids: &[u32]) -> io::Result<()> {
        self.directories.iter().try_for_each(|directory| directory.add(pids))
    }

    /// Sets the limits, and returns those in force.
    fn apply(&self, cpu: Option<&Path>, limits: &ResourceLimits) -> io::Result<ResourceLimits> {
        let mut held = ResourceLimits::default();
        if limits.memory_bytes > 0 {
            let bytes = limits.memory_bytes.to_string();
            set(&self.memory, "memory.limit_in_bytes", &bytes)?;
            // Swapped memory counts as memory. Without swap accounting, this file does not exist.
            if self.memory.join("memory.memsw.limit_in_bytes").exists() {
                set(&self.memory, "memory.memsw.limit_in_bytes", &bytes)?;
            }
            held.memory_bytes = limits.memory_bytes;
        }
        if limits.processes > 0 {
            set(&self.pids, "pids.max", &limits.processes.to_string())?;
            held.processes = limits.processes;
        }
        let Some(cpu) = cpu else { return Ok(held) };
        if limits.cpu_weight > 0 {
            let shares = limits.cpu_weight.saturating_mul(USUAL_SHARES) / 100;
            set(cpu, "cpu.shares", &shares.clamp(2, 262_144).to_string())?;
            held.cpu_weight = limits.cpu_weight;
        }
        if limits.cpu_milli > 0 {
            let quota = limits.cpu_milli.saturating_mul(CPU_PERIOD_US / 1000);
            set(cpu, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            set(cpu, "cpu.cfs_quota_us", &quota.to_string())?;
            held.cpu_milli = limits.cpu_milli;
        }
        Ok(held)
    }
}

/// Removes the groups of dead shims.
pub(in crate::limits) fn sweep_all(hierarchies: &Hierarchies) -> usize {
    ["memory", "pids", "cpu", "cpuacct"]
        .iter()
        .filter_map(|controller| hierarchies.legacy.get(*controller))
        .map(|placement| sweep(&placement.own))
        .sum()
}

fn make_once(
    directories: &mut Vec<CgroupDirectory>,
    parent: &Path,
    id: &str,
) -> io::Result<PathBuf> {
    if let Some(made) = directories.iter().find(|made| made.path().parent() == Some(parent)) {
        return Ok(made.path().to_owned());
    }
    sweep(parent);
    let made = CgroupDirectory::create(parent, id)?;
    let path = made.path().to_owned();
    directories.push(made);
    Ok(path)
}

fn set(group: &Path, file: &str, value: &str) -> io::Result<()> {
    super::cgroup_directory::set(&group.join(file), value)
        .map_err(|error| io::Error::other(format!("the group's `{file}`: {error}")))
}
