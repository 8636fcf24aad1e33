//! A group in the cgroup v2 tree, below a directory that is delegated to the shim.
//!
//! If systemd manages the tree, other programs may change only units with `Delegate=`, which systemd marks with an
//! attribute of the directory. For everything else, systemd makes a scope on request ([`super::scope`]).
//!
//! The kernel allows controllers below a directory only while no process is in the directory itself. So the shim tries
//! its own directory and then those above it, and takes the first that works.

use std::io;
use std::path::Path;

use nix::unistd::{AccessFlags, access};
use run_protocol::ResourceLimits;

use super::cgroup_directory::{CgroupDirectory, set, sweep};
use super::hierarchy::Placement;

/// The controllers that a group needs.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// The period of the processor quota, in microseconds.
pub(in crate::limits) const CPU_PERIOD_US: u64 = 100_000;

/// Makes a run's group and sets its limits. An error explains why this is impossible.
pub(in crate::limits) fn create(
    placement: &Placement,
    is_systemds: bool,
    id: &str,
    limits: &ResourceLimits,
) -> Result<(CgroupDirectory, ResourceLimits), String> {
    let mut reason = "no writable cgroup directory".to_owned();
    for parent in candidates(placement) {
        if access(parent, AccessFlags::W_OK).is_err() {
            break;
        }
        if is_systemds && !is_delegated(parent) {
            "the tree belongs to systemd and is not delegated".clone_into(&mut reason);
            continue;
        }
        match create_below(parent, id, limits) {
            Ok(made) => return Ok(made),
            Err(error) => reason = format!("below `{}`: {error}", parent.display()),
        }
    }
    Err(reason)
}

/// Removes the groups of dead shims from all directories that this shim might use.
pub(in crate::limits) fn sweep_all(placement: &Placement) -> usize {
    candidates(placement)
        .take_while(|parent| access(*parent, AccessFlags::W_OK).is_ok())
        .map(sweep)
        .sum()
}

/// The shim's own directory, and those above it up to the mount point.
fn candidates(placement: &Placement) -> impl Iterator<Item = &Path> {
    placement.own.ancestors().take_while(|path| path.starts_with(&placement.mount))
}

/// Returns whether systemd delegated a directory. It delegates the directories of its user managers to them, not to the
/// shim.
fn is_delegated(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let says_so = |attribute: &str| {
        let mut value = [0; 8];
        matches!(rustix::fs::getxattr(path, attribute, &mut value[..]), Ok(1) if value[0] == b'1')
    };
    !name.starts_with("user@") && (says_so("user.delegate") || says_so("trusted.delegate"))
}

fn create_below(
    parent: &Path,
    id: &str,
    limits: &ResourceLimits,
) -> io::Result<(CgroupDirectory, ResourceLimits)> {
    sweep(parent);
    // A directory can pass on only its own controllers. On hosts with both versions it has none.
    let own = std::fs::read_to_string(parent.join("cgroup.controllers"))?;
    if let Some(missing) =
        NEEDED.iter().find(|name| !own.split_whitespace().any(|has| has == **name))
    {
        return Err(cannot_be_had(missing));
    }
    let group = CgroupDirectory::create(parent, id)?;
    let mut controllers = controllers_of(&group)?;
    if ["memory", "pids", "cpu"].iter().any(|name| !controllers.iter().any(|has| has == name)) {
        for name in ["memory", "pids", "cpu"] {
            // The kernel refuses if a process is in the directory itself, or if it lacks the controller.
            set(&parent.join("cgroup.subtree_control"), &format!("+{name}")).ok();
        }
        controllers = controllers_of(&group)?;
    }
    let has = |name: &str| controllers.iter().any(|has| has == name);
    if let Some(missing) = NEEDED.iter().find(|name| !has(name)) {
        return Err(cannot_be_had(missing));
    }
    let held = apply(&group, has("cpu"), limits)?;
    Ok((group, held))
}

fn cannot_be_had(controller: &str) -> io::Error {
    io::Error::other(format!("the controller `{controller}` is not available there"))
}

fn controllers_of(group: &CgroupDirectory) -> io::Result<Vec<String>> {
    Ok(group.read("cgroup.controllers")?.split_whitespace().map(ToOwned::to_owned).collect())
}

/// Sets the limits of a group, and returns those in force.
fn apply(
    group: &CgroupDirectory,
    has_cpu: bool,
    limits: &ResourceLimits,
) -> io::Result<ResourceLimits> {
    let mut held = ResourceLimits::default();
    if limits.memory_bytes > 0 {
        group.set("memory.max", &limits.memory_bytes.to_string())?;
        // Swapped memory counts as memory. Without swap, this file does not exist.
        if group.path().join("memory.swap.max").exists() {
            group.set("memory.swap.max", "0")?;
        }
        // The kernel kills all processes together, even if the shim notices late. Older kernels lack this file.
        group.set("memory.oom.group", "1").ok();
        held.memory_bytes = limits.memory_bytes;
    }
    if limits.processes > 0 {
        group.set("pids.max", &limits.processes.to_string())?;
        held.processes = limits.processes;
    }
    if has_cpu && limits.cpu_weight > 0 {
        group.set("cpu.weight", &limits.cpu_weight.clamp(1, 10_000).to_string())?;
        held.cpu_weight = limits.cpu_weight;
    }
    if has_cpu && limits.cpu_milli > 0 {
        let quota = limits.cpu_milli.saturating_mul(CPU_PERIOD_US / 1000);
        group.set("cpu.max", &format!("{quota} {CPU_PERIOD_US}"))?;
        held.cpu_milli = limits.cpu_milli;
    }
    Ok(held)
}

#[cfg(test)]
#[path = "version2_tests.rs"]
mod tests;
