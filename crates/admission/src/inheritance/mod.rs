//! The settings that a run inherits from the run that it continues or repeats.
//!
//! ```text
//!   last run of the session ─► earlier_run ─► layer (pure) ─┐
//!   flags, or a request ────────────────────────────────────┴─► RunRequest::combine ─► a spec ─► wider_than (pure)
//!                                                                           named by --widen, or refused ◄┘
//! ```
//!
//! **Invariant:** a run is never wider than the earlier run, unless `--widen` names the bound.
//!
//! | fields of the spec | where they come from |
//! |---|---|
//! | run, created_ms, name, session, session_start, workspace, worktree, setup, retry_of, continues, wait_for_locks, delivers, fresh_cache | this run |
//! | bwrap, home, host_config_root, login_file, socket_dir, home_files, certificates, known_registries | this host's current state |
//! | profile | the flag, else the earlier run; its current text, unless that allows more than before |
//! | network | the flag, else the earlier run; a profile that is narrower now wins over both |
//! | resources | the flags, else the earlier run; lower where the profile has been lowered since |
//! | agent | the flag, else the earlier run; if an update has removed that version, the present one |
//! | model, mode, group | the flag, else the earlier run |
//! | policy | the user's present rules and those of the earlier run together; the model of the earlier run |
//! | limits | the flags, else the earlier run |
//! | tool_approval | the flags, else the earlier run; never `force` because of another profile |
//! | extra_flags | the flags, if there are any, else the earlier run |
//! | user_mcp, repository_mcp | the flags, else the earlier run |
//! | mcp_choice | the session's record, or that of the session that it copies or replaces |
//! | restart, partial_output | the earlier run, or the flag |
//! | labels, env, expose, allow_hosts, registries, secrets (names) | the earlier run, plus the flags; proxies and the simulated agent's variables come from the current environment |
//! | saving | the earlier run, unless the flag says not to |
//! | queue (priority, account) | the flags, else the earlier run |
//! | lineage | the earlier run |
//!
//! The configuration has no influence here: it is for new sessions.

pub mod earlier_run;
mod widening;

use run_protocol::{Bound, NetworkMode, ResourceLimits, RunRequest, RunSpec, Variable};
use sandbox_plan::Profile;

pub(crate) use widening::wider_than;
pub use widening::{check, sentence};

use crate::admit::{SIMULATION, is_proxy_variable};

/// The lowest request layer of a run that continues `before` in the profile `now`. New restrictions of the profile
/// apply; new permissions do not.
pub(crate) fn layer(
    before: &RunSpec,
    now: &Profile,
    asked: &RunRequest,
    auto_memory: u64,
) -> RunRequest {
    let network = network(before, now, asked);
    let mut layer = RunRequest {
        network,
        ..RunRequest::of_run(&RunSpec {
            resources: resources(before, now, auto_memory),
            ..before.clone()
        })
    };
    // The proxy depends on the mode. The variables of the simulated agent come from this command.
    let is_other_way = mode_of(before) != Some(network.unwrap_or(now.network_mode()));
    let is_of_now =
        |name: &str| SIMULATION.contains(&name) || is_other_way && is_proxy_variable(name);
    layer.env.retain(|Variable { name, .. }| !is_of_now(name));
    layer
}

/// True if a run that continues `before` keeps the old text of its profile: the profile now allows more, and forbids
/// nothing new. If it also forbids something new, the user must choose.
pub(crate) fn keeps_profile(before: &RunSpec, now: &Profile, asked: &RunRequest) -> bool {
    if asked.profile.is_some() || asked.widen.contains(&Bound::Profile) {
        return false;
    }
    let Ok(before) = Profile::parse(&before.profile, &before.profile_text) else { return false };
    !now.wider_than(&before).is_empty() && before.wider_than(now).is_empty()
}

/// The network mode of a run that continues `before` in the profile `now`; `None`: the profile's mode.
pub(crate) fn network(before: &RunSpec, now: &Profile, asked: &RunRequest) -> Option<NetworkMode> {
    if asked.network.is_some() {
        return asked.network;
    }
    let was = Profile::parse(&before.profile, &before.profile_text).ok();
    let was = was.map(|was| was.network_mode());
    let now = now.network_mode();
    // If the profile has become narrower, or the run uses a narrower profile, the profile wins.
    before.network.filter(|mode| was == Some(now) || now.width() >= mode.width())
}

/// The resource limits of a run that continues `before` in the profile `now`, without flags.
pub(crate) fn resources(before: &RunSpec, now: &Profile, auto_memory: u64) -> ResourceLimits {
    let was = Profile::parse(&before.profile, &before.profile_text).ok();
    let of_profile = |profile| of_profile(profile, auto_memory);
    lowered(before.resources, of_profile(was.as_ref()), of_profile(Some(now)))
}

/// The limits that a profile sets, where `auto` means this much memory.
pub(crate) fn of_profile(profile: Option<&Profile>, auto_memory: u64) -> ResourceLimits {
    let Some(limits) = profile.and_then(Profile::limits) else { return ResourceLimits::default() };
    ResourceLimits {
        memory_bytes: limits.memory.value.bytes(auto_memory),
        processes: limits.processes.value,
        cpu_weight: limits.cpu_weight.value,
        cpu_milli: limits.cpu_milli.value,
        file_bytes: limits.file_size.value,
        open_files: limits.open_files.value,
        disk_bytes: limits.disk.value,
        required: limits.required.value,
    }
}

/// The network mode of a spec; `None` if its profile cannot be read.
pub(crate) fn mode_of(spec: &RunSpec) -> Option<NetworkMode> {
    let profile = || Profile::parse(&spec.profile, &spec.profile_text).ok();
    spec.network.or_else(|| profile().map(|profile| profile.network_mode()))
}

/// The limits of the earlier run, lowered to the profile's current limits if the profile has changed. A flag given to
/// the earlier run wins over an unchanged profile.
fn lowered(had: ResourceLimits, was: ResourceLimits, now: ResourceLimits) -> ResourceLimits {
    let lower = |had: u64, was: u64, now: u64| match (now == was, had, now) {
        (true, ..) | (_, _, 0) => had,
        (false, 0, now) => now,
        (false, had, now) => had.min(now),
    };
    ResourceLimits {
        memory_bytes: lower(had.memory_bytes, was.memory_bytes, now.memory_bytes),
        processes: lower(had.processes, was.processes, now.processes),
        cpu_weight: lower(had.cpu_weight, was.cpu_weight, now.cpu_weight),
        cpu_milli: lower(had.cpu_milli, was.cpu_milli, now.cpu_milli),
        file_bytes: lower(had.file_bytes, was.file_bytes, now.file_bytes),
        open_files: lower(had.open_files, was.open_files, now.open_files),
        disk_bytes: lower(had.disk_bytes, was.disk_bytes, now.disk_bytes),
        required: had.required || now.required,
    }
}

#[cfg(test)]
#[path = "inheritance_tests.rs"]
mod tests;
