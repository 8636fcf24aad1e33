//! Child runs. A child may do at most what its parent may do. Caretaker refuses a request for more, and says what it
//! asked for.
//!
//! A child's spec is its parent's spec, narrowed. So mounts, secrets, variables, the agent and everything else come
//! from the parent, not from the current configuration.

use std::fmt::Display;
use std::path::Path;

use egress::AllowedHost;
use ground::now_ms;
use run_journal::{RunDirectory, RunFilter, Which};
use run_protocol::{
    AgentMode, AgentPolicy, ChildOrder, ChildRequest, ExitCode, Lineage, McpChoice, NetworkMode,
    PromptCheck, QueueTerms, RunLimits, RunName, RunSpec, SessionStart,
};
use run_shim::{SocketPaths, check_run};
use sandbox_plan::{Profile, builtin_profiles};
use uuid::Uuid;

use crate::admit::create_run_directory;
use crate::command_error::{CommandError, OrFail};
use crate::config::{ChildrenConfig, Config};
use crate::credentials::QueuedRun;
use crate::host::{Host, list_runs};
use crate::inheritance::{sentence, wider_than};
use crate::request::name_claim;
use crate::sandbox::profiles::OFF;
use crate::sandbox::user_policy;
use crate::worktrees::{Fresh, Wanted, origin_of};

const MEBIBYTE: u64 = 1024 * 1024;

/// Why no child was created.
#[derive(Debug)]
pub enum NoChild {
    /// The child could do more than its parent may, or there are too many children.
    Forbidden(String),
    Failed(CommandError),
}

impl From<CommandError> for NoChild {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

/// Creates the child's worktree, and its run directory as a queued run.
pub fn queue_child(
    host: &Host,
    config: &Config,
    parent: &RunSpec,
    order: ChildOrder,
) -> Result<QueuedRun, NoChild> {
    let caps = &config.children;
    let ChildOrder { request, left_ms, credentials } = order;
    PromptCheck::whole(request.prompt.as_bytes()).map_err(CommandError::from)?;
    let name = request
        .name
        .as_ref()
        .map(|name| name.parse::<RunName>())
        .transpose()
        .or_fail_as(ExitCode::Usage, || "the name cannot be used")?;
    let depth = depth_of(parent, caps)?;
    let narrowed = narrow(parent, &request, left_ms)?;
    let wider = wider_than(&narrowed, parent);
    if !wider.is_empty() {
        return Err(forbidden(format!("a child may not do more: {}", sentence(&wider))));
    }
    check_room(host, parent, caps)?;
    if let Some(name) = &name {
        name_claim::check_free(&host.state, name)?;
    }
    let wanted = Wanted { name: name.as_ref(), include: &config.worktree.include };
    let fresh = Fresh::make_of_whole(host, Path::new(&parent.workspace), wanted)
        .map_err(|error| error.hint("do the work yourself: a child needs a worktree of its own"))?;
    let policy = present_policy(&narrowed)?;
    let make = || -> Result<RunDirectory, CommandError> {
        let workspace = fresh.path().to_str().ok_or_else(|| {
            CommandError::new(ExitCode::Usage, "the worktree's path is not UTF-8")
        })?;
        let before = parent.queue.clone().unwrap_or_default();
        let spec = RunSpec {
            run: fresh.run(),
            created_ms: now_ms(),
            name: name.as_ref().map(|name| name.as_str().to_owned()),
            session: Uuid::new_v4(),
            session_start: SessionStart::New,
            workspace: workspace.to_owned(),
            worktree: origin_of(host, fresh.path()),
            setup: parent.setup.clone().or_else(|| config.worktree.setup.clone()),
            wait_for_locks: false,
            retry_of: None,
            continues: None,
            queue: Some(QueueTerms {
                priority: before.priority,
                account: before.account,
                keys: credentials.keys.keys().cloned().collect(),
                ..QueueTerms::default()
            }),
            lineage: Some(Lineage { run: parent.run, session: parent.session, depth }),
            delivers: Vec::new(),
            policy,
            widened: Vec::new(),
            // The parent's choice applies to the child through its lineage.
            mcp_choice: McpChoice::default(),
            ..narrowed
        };
        if !SocketPaths::new(&spec.socket_dir.0, spec.run).fit() {
            let what = "the path of the run's sockets would be too long for the kernel";
            return Err(CommandError::new(ExitCode::Usage, what));
        }
        check_run(&host.state, &spec, parsed_profile(&spec)?)?;
        create_run_directory(host, &spec, request.prompt.as_bytes())
    };
    let made = make();
    fresh.settle(made.is_ok());
    Ok(QueuedRun { run: made?.run_id(), credentials, warnings: Vec::new() })
}

/// The parent's rules for the agent, and those that the user has added since.
fn present_policy(narrowed: &RunSpec) -> Result<Option<AgentPolicy>, CommandError> {
    let Some(of_parent) = &narrowed.policy else { return Ok(None) };
    let projects = user_policy::projects(Path::new(&narrowed.workspace), None);
    let present = user_policy::present(&narrowed.host_config_root.0, &narrowed.home.0, &projects)?;
    let policy = user_policy::continued(present, Some(of_parent));
    user_policy::check(Some(&policy), &parsed_profile(narrowed)?)?;
    Ok(Some(policy))
}

/// The child's generation, counted from a run that a user started.
fn depth_of(parent: &RunSpec, caps: &ChildrenConfig) -> Result<u32, NoChild> {
    let depth = parent.lineage.as_ref().map_or(0, |lineage| lineage.depth) + 1;
    if depth <= caps.depth {
        return Ok(depth);
    }
    let what = match caps.depth {
        0 => "the configuration allows no children".to_owned(),
        most => format!("the configuration allows {most} generations of children"),
    };
    Err(forbidden(what))
}

/// Refuses the child if the parent has too many.
fn check_room(host: &Host, parent: &RunSpec, caps: &ChildrenConfig) -> Result<(), NoChild> {
    let every = RunFilter { which: Which::All, ..RunFilter::default() };
    let all = list_runs(&host.state, &every).map_err(CommandError::from)?;
    let is_child = |lineage: &Lineage| lineage.session == parent.session;
    let children = || all.iter().filter(|run| run.lineage.as_ref().is_some_and(is_child));
    let n_underway = children().filter(|run| run.state.is_unfinished()).count();
    if n_underway >= caps.at_once as usize {
        let what = format!("{n_underway} children are under way, which is the limit");
        return Err(CommandError::new(ExitCode::Conflict, what)
            .hint("wait until a child has ended")
            .into());
    }
    if children().count() >= caps.in_all as usize {
        return Err(forbidden(format!(
            "the session has had {} children, which is the limit",
            caps.in_all
        )));
    }
    Ok(())
}

fn forbidden(what: impl Into<String>) -> NoChild {
    NoChild::Forbidden(what.into())
}

fn exceeds(what: &str, asked: impl Display, has: impl Display) -> NoChild {
    forbidden(format!("a child may not have the {what} `{asked}`: its parent has `{has}`"))
}

/// The parent's spec, narrowed by the request. Refuses everything that the request would add.
fn narrow(
    parent: &RunSpec,
    request: &ChildRequest,
    left_ms: Option<u64>,
) -> Result<RunSpec, NoChild> {
    if parent.profile == OFF {
        return Err(forbidden("a run without a sandbox cannot have children"));
    }
    let mut spec = parent.clone();
    if let Some(asked) = &request.profile {
        (spec.profile, spec.profile_text) = profile(parent, asked)?;
    }
    spec.network = network(parent, request.network.as_deref())?;
    if let Some(hosts) = &request.hosts {
        spec.allow_hosts = allow_hosts(parent, hosts)?;
    }
    let is_offline = mode_of(&spec)? == NetworkMode::None;
    if is_offline || request.hosts.is_some() || !parsed_profile(&spec)?.has_registries() {
        spec.registries.clear();
    }
    spec.limits = limits(parent, request.timeout_seconds, left_ms)?;
    let most = |what: &str, asked: Option<u64>, unit: u64, has: u64| match asked {
        None => Ok(has),
        Some(0) => Err(exceeds(what, 0, has / unit)),
        Some(asked) => {
            let wanted = asked.saturating_mul(unit);
            if has > 0 && wanted > has {
                return Err(exceeds(what, asked, has / unit));
            }
            Ok(wanted)
        }
    };
    let has = parent.resources;
    spec.resources.memory_bytes = most("memory_mb", request.memory_mb, MEBIBYTE, has.memory_bytes)?;
    spec.resources.processes = most("processes", request.processes, 1, has.processes)?;
    spec.resources.disk_bytes = most("disk_mb", request.disk_mb, MEBIBYTE, has.disk_bytes)?;
    spec.mode = match request.mode.as_deref() {
        // The children of a read-only parent are read-only.
        None => parent.mode,
        Some("plan") => Some(AgentMode::Plan),
        Some("ask") => Some(AgentMode::Ask),
        Some(_) => {
            return Err(CommandError::new(ExitCode::Usage, "`mode` must be `plan` or `ask`").into());
        }
    };
    Ok(spec)
}

/// The parent's own profile, or `strict` if the parent has the built-in `default`.
fn profile(parent: &RunSpec, asked: &str) -> Result<(String, String), NoChild> {
    if asked == parent.profile {
        return Ok((parent.profile.clone(), parent.profile_text.clone()));
    }
    let builtin = |name: &str| builtin_profiles().iter().find(|(builtin, _)| *builtin == name);
    let has_default = builtin("default").is_some_and(|(_, text)| parent.profile_text == *text);
    match builtin("strict") {
        Some((name, text)) if asked == *name && has_default => {
            Ok(((*name).to_owned(), (*text).to_owned()))
        }
        _ => Err(exceeds("profile", asked, &parent.profile)),
    }
}

fn mode_of(spec: &RunSpec) -> Result<NetworkMode, CommandError> {
    if let Some(mode) = spec.network {
        return Ok(mode);
    }
    parsed_profile(spec).map(|profile| profile.network_mode())
}

fn parsed_profile(spec: &RunSpec) -> Result<Profile, CommandError> {
    Profile::parse(&spec.profile, &spec.profile_text)
        .or_fail(|| format!("the parent's profile `{}` cannot be used", spec.profile))
}

fn network(parent: &RunSpec, asked: Option<&str>) -> Result<Option<NetworkMode>, NoChild> {
    let Some(asked) = asked else { return Ok(parent.network) };
    let has = mode_of(parent)?;
    let mode = match asked {
        "none" => NetworkMode::None,
        "allowlist" => NetworkMode::Allowlist,
        "host" => NetworkMode::Host,
        _ => {
            let what = "`network` must be `none`, `allowlist` or `host`";
            return Err(CommandError::new(ExitCode::Usage, what).into());
        }
    };
    if mode.width() > has.width() {
        return Err(exceeds("network", asked, has.word()));
    }
    Ok(Some(mode))
}

fn allow_hosts(parent: &RunSpec, asked: &[String]) -> Result<Vec<String>, NoChild> {
    let profile = parsed_profile(parent)?;
    let own = parent.hosts().filter_map(|host| host.parse::<AllowedHost>().ok());
    let has: Vec<AllowedHost> = own.chain(profile.allowed_hosts().cloned()).collect();
    let mut allowed = Vec::new();
    for text in asked {
        let host =
            text.parse::<AllowedHost>().or_fail_as(ExitCode::Usage, || "a host cannot be used")?;
        if !has.iter().any(|has| has.covers(&host)) {
            return Err(forbidden(format!(
                "a child may not reach the host `{host}`: its parent may not reach it"
            )));
        }
        allowed.push(host.to_string());
    }
    Ok(allowed)
}

fn limits(
    parent: &RunSpec,
    timeout_seconds: Option<u64>,
    left_ms: Option<u64>,
) -> Result<RunLimits, NoChild> {
    // A parent can give a child at most the time that it has left. A parent without a limit can give any amount.
    let has_ms = left_ms.or_else(|| (parent.limits.wall_ms > 0).then_some(parent.limits.wall_ms));
    let wall_ms = match (timeout_seconds, has_ms) {
        (None, None) => 0,
        (None, Some(has_ms)) => has_ms,
        (Some(asked), None) if asked > 0 => asked.saturating_mul(1000),
        (Some(asked), Some(has_ms)) if asked > 0 && asked.saturating_mul(1000) <= has_ms => {
            asked.saturating_mul(1000)
        }
        (Some(asked), has_ms) => {
            let has = has_ms.map_or("no limit".to_owned(), |ms| (ms / 1000).to_string());
            return Err(exceeds("timeout_seconds", asked, has));
        }
    };
    if has_ms == Some(0) {
        return Err(forbidden("the parent has no time left"));
    }
    Ok(RunLimits { wall_ms, ..parent.limits.clone() })
}

#[cfg(test)]
#[path = "children_tests.rs"]
mod tests;
