//! A group in the tree of cgroup v2, below a directory that was given into our hands.
//!
//! Where systemd keeps the tree, only a unit with `Delegate=` is anybody else's to change, and it says so on the
//! directory; everything else there is systemd's, which makes a scope for us if we ask ([`super::scope`]).
//!
//! The kernel allows controllers below a directory only while no process is in the directory itself. So the group is
//! made beside our own as often as below it: the first directory upwards that takes it.

use std::io;
use std::path::Path;

use nix::unistd::{AccessFlags, access};
use run_protocol::ResourceLimits;

use super::cgroup_directory::{CgroupDirectory, set, sweep};
use super::hierarchy::Placement;

/// What a group must be able to hold to be worth having.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// Processors are counted in periods of this many microseconds.
pub(in crate::limits) const CPU_PERIOD_US: u64 = 100_000;

/// Makes the group of a run and sets its limits. `Err`: why there is none.
pub(in crate::limits) fn create(
    placement: &Placement,
    is_systemds: bool,
    id: &str,
    limits: &ResourceLimits,
) -> Result<(CgroupDirectory, ResourceLimits), String> {
    let mut reason = "no directory of the tree is ours to write".to_owned();
    for parent in candidates(placement) {
        if access(parent, AccessFlags::W_OK).is_err() {
            break;
        }
        if is_systemds && !is_delegated(parent) {
            "the tree belongs to systemd, and our part of it is not delegated"
                .clone_into(&mut reason);
            continue;
        }
        match create_below(parent, id, limits) {
            Ok(made) => return Ok(made),
            Err(error) => reason = format!("below `{}`: {error}", parent.display()),
        }
    }
    Err(reason)
}

/// Removes what dead supervisors left anywhere that we might use.
pub(in crate::limits) fn sweep_all(placement: &Placement) -> usize {
    candidates(placement)
        .take_while(|parent| access(*parent, AccessFlags::W_OK).is_ok())
        .map(sweep)
        .sum()
}

/// Our own directory, and those above it up to where the tree is mounted.
fn candidates(placement: &Placement) -> impl Iterator<Item = &Path> {
    placement.own.ancestors().take_while(|path| path.starts_with(&placement.mount))
}

/// Whether systemd has given a directory away. Its user managers' own directories are given to them, not to us.
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
    let group = CgroupDirectory::create(parent, id)?;
    let mut controllers = controllers_of(&group)?;
    if ["memory", "pids", "cpu"].iter().any(|name| !controllers.iter().any(|has| has == name)) {
        for name in ["memory", "pids", "cpu"] {
            // Refused where a process is in the directory itself, or where it has no such controller.
            set(&parent.join("cgroup.subtree_control"), &format!("+{name}")).ok();
        }
        controllers = controllers_of(&group)?;
    }
    let has = |name: &str| controllers.iter().any(|has| has == name);
    if let Some(missing) = NEEDED.iter().find(|name| !has(name)) {
        let what = format!("the controller `{missing}` cannot be had there");
        return Err(io::Error::other(what));
    }
    let held = apply(&group, has("cpu"), limits)?;
    Ok((group, held))
}

fn controllers_of(group: &CgroupDirectory) -> io::Result<Vec<String>> {
    Ok(group.read("cgroup.controllers")?.split_whitespace().map(ToOwned::to_owned).collect())
}

/// Sets the limits of a group, and returns those that hold now.
fn apply(
    group: &CgroupDirectory,
    has_cpu: bool,
    limits: &ResourceLimits,
) -> io::Result<ResourceLimits> {
    let mut held = ResourceLimits::default();
    if limits.memory_bytes > 0 {
        group.set("memory.max", &limits.memory_bytes.to_string())?;
        // Memory that is moved to the disk is memory. Without swap there is no such file.
        if group.path().join("memory.swap.max").exists() {
            group.set("memory.swap.max", "0")?;
        }
        // All of it goes together, at once, even if we should be slow to notice. Older kernels have no such file.
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
