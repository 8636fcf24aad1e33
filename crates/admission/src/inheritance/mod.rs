//! What a run takes over from the run that it continues or repeats.
//!
//! ```text
//!   last run of the session ─► earlier_run ─┐
//!   flags + configuration ─► a fresh spec ──┴─► inherit (pure) ─► wider_than (pure) ─► named by --widen, or refused
//! ```
//!
//! **Invariant:** a run is never wider than the one before, unless `--widen` names in what.
//!
//! | fields of the spec | where they come from |
//! |---|---|
//! | run, created_ms, name, session, session_start, workspace, worktree, retry_of, continues, wait_for_locks, delivers | this run |
//! | bwrap, home, host_config_root, login_file, socket_dir | this host, as it is now |
//! | profile | the flag, else the earlier run; its text as it is now, unless that allows more than it did |
//! | network | the flag, else the earlier run; a profile that says something narrower by now wins over both |
//! | resources | the flags, else the earlier run; what the profile lowered since the earlier run is lower |
//! | agent, model, mode, group | the flag, else the earlier run |
//! | limits | the flags, else the earlier run |
//! | tool_approval | the flags, else the earlier run; never `force` because of another profile |
//! | extra_flags | the flags, if there are any, else the earlier run |
//! | user_mcp, repository_mcp | the flags, else the earlier run |
//! | mcp_choice | the session's record, or that of the session that it is a copy of or begins in the place of |
//! | restart, partial_output | the earlier run, or the flag |
//! | labels, env, expose, allow_hosts, secrets (names) | the earlier run, and the flags in addition; proxies and what steers the simulated agent are those of now |
//! | saving | the earlier run, unless the flag says not to |
//! | queue (priority, account) | the flags, else the earlier run |
//! | lineage | the earlier run |
//!
//! The configuration decides nothing here: what it allows by now is for new sessions.

pub mod earlier_run;
mod widening;

use run_protocol::{
    Bound, NetworkMode, QueueTerms, ResourceLimits, RunSpec, ToolApproval, WorkspaceSaving,
};
use sandbox_plan::Profile;

pub use widening::{check, sentence, wider_than};

use crate::admit::{SIMULATION, is_proxy_variable};
use crate::request::limit_options;
use crate::request::run_options::RunOptions;

/// The spec of a run that continues `before` with these flags. `fresh` is what the run would be without an earlier one, with
/// the profile and the agent that were found for it.
pub fn inherit(fresh: RunSpec, before: &RunSpec, flags: &RunOptions) -> RunSpec {
    let profile = Profile::parse(&fresh.profile, &fresh.profile_text).ok();
    let profile = profile.as_ref();
    let mut spec = RunSpec {
        run: fresh.run,
        created_ms: fresh.created_ms,
        name: fresh.name,
        session: fresh.session,
        session_start: fresh.session_start,
        workspace: fresh.workspace,
        worktree: fresh.worktree,
        retry_of: fresh.retry_of,
        continues: fresh.continues,
        wait_for_locks: fresh.wait_for_locks,
        delivers: fresh.delivers,
        bwrap: fresh.bwrap,
        home: fresh.home,
        host_config_root: fresh.host_config_root,
        login_file: fresh.login_file,
        socket_dir: fresh.socket_dir,
        network: profile.and_then(|profile| network(before, profile, flags)),
        resources: resources(before, profile, flags),
        tool_approval: approval(fresh.tool_approval, before, &fresh.profile, flags),
        profile: fresh.profile,
        profile_text: fresh.profile_text,
        agent: fresh.agent,
        model: if flags.model.is_some() { fresh.model } else { before.model.clone() },
        mode: flags.mode.map_or(before.mode, Into::into),
        group: fresh.group.or_else(|| before.group.clone()),
        limits: before.limits.clone(),
        extra_flags: match flags.agent_flags.is_empty() {
            true => before.extra_flags.clone(),
            false => fresh.extra_flags,
        },
        user_mcp: match flags.user_mcp || !flags.servers.mcp.is_empty() {
            true => fresh.user_mcp,
            false => before.user_mcp.clone().filter(|_| !flags.no_user_mcp),
        },
        repository_mcp: match flags.servers.mcp_from_repo.is_empty() {
            true => before.repository_mcp.clone(),
            false => fresh.repository_mcp,
        },
        mcp_choice: fresh.mcp_choice,
        restart: before.restart || fresh.restart,
        partial_output: before.partial_output || fresh.partial_output,
        labels: fresh.labels,
        env: before.env.clone(),
        expose: with(&before.expose, fresh.expose),
        allow_hosts: with(&before.allow_hosts, fresh.allow_hosts),
        secrets: with(&before.secrets, fresh.secrets),
        saving: match (&before.saving, fresh.saving) {
            (Some(before), Some(now)) => Some(WorkspaceSaving { git: now.git, ..before.clone() }),
            (before, _) => before.clone().filter(|_| !flags.no_checkpoint),
        },
        queue: before.queue.as_ref().map(|terms| QueueTerms {
            priority: terms.priority,
            account: terms.account.clone(),
            ..QueueTerms::default()
        }),
        lineage: before.lineage.clone(),
        widened: Vec::new(),
    };
    // What the simulated agent is to play is said anew for each run.
    spec.env.retain(|name, _| !SIMULATION.contains(&name.as_str()));
    let plays = fresh.env.iter().filter(|(name, _)| SIMULATION.contains(&name.as_str()));
    spec.env.extend(plays.map(|(name, value)| (name.clone(), value.clone())));
    if mode_of(&spec) != mode_of(before) {
        // Which way out there is depends on the mode.
        spec.env.retain(|name, _| !is_proxy_variable(name));
        let proxies = fresh.env.into_iter().filter(|(name, _)| is_proxy_variable(name));
        spec.env.extend(proxies);
    }
    spec.env.extend(flags.variables.iter().map(|set| (set.name.clone(), set.value.clone())));
    limit_options::apply_to_run(flags, &mut spec.limits);
    spec
}

/// Whether a run that continues `before` has its profile as it was then: the profile allows more by now, and nothing less.
/// Where it allows less in something the user closed that, and has to choose.
pub fn keeps_profile(before: &RunSpec, now: &Profile, flags: &RunOptions) -> bool {
    if flags.profile.is_some() || flags.widen.contains(&Bound::Profile) {
        return false;
    }
    let Ok(before) = Profile::parse(&before.profile, &before.profile_text) else { return false };
    !now.wider_than(&before).is_empty() && before.wider_than(now).is_empty()
}

/// What a run that continues `before` in the profile `now` has in place of the profile's own network mode.
pub fn network(before: &RunSpec, now: &Profile, flags: &RunOptions) -> Option<NetworkMode> {
    if let Some(asked) = flags.network {
        return Some(asked.into());
    }
    let was = Profile::parse(&before.profile, &before.profile_text).ok();
    let was = was.map(|was| was.network_mode());
    let now = now.network_mode();
    // A profile that was narrowed since, or another that is narrower, means it.
    before.network.filter(|mode| was == Some(now) || now.width() >= mode.width())
}

fn with<T: Clone + PartialEq>(before: &[T], more: Vec<T>) -> Vec<T> {
    let mut all = before.to_vec();
    for entry in more {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all
}

/// The user allowed it for the sandbox that the run had, and not for another one.
fn approval(
    fresh: ToolApproval,
    before: &RunSpec,
    profile: &str,
    flags: &RunOptions,
) -> ToolApproval {
    let is_asked = flags.force || flags.no_force;
    match (is_asked, before.tool_approval) {
        (true, _) => fresh,
        (false, ToolApproval::Force) if profile != before.profile => fresh,
        (false, before) => before,
    }
}

fn resources(before: &RunSpec, now: Option<&Profile>, flags: &RunOptions) -> ResourceLimits {
    let limits = |profile: Option<&Profile>| {
        let limits = profile.and_then(Profile::limits);
        limits.map(limit_options::of_profile).unwrap_or_default()
    };
    let was = Profile::parse(&before.profile, &before.profile_text).ok();
    let mut resources = lowered(before.resources, limits(was.as_ref()), limits(now));
    limit_options::apply(&flags.limits, &mut resources);
    resources
}

/// The network mode that a spec comes to; `None` if its profile cannot be read.
fn mode_of(spec: &RunSpec) -> Option<NetworkMode> {
    let profile = || Profile::parse(&spec.profile, &spec.profile_text).ok();
    spec.network.or_else(|| profile().map(|profile| profile.network_mode()))
}

/// What a run had, with what its profile says now wherever that is less and is not what the profile said then: a flag of
/// the earlier run wins over a profile that is as it was.
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
