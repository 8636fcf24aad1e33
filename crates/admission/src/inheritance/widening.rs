//! Compares two specs: finds the bounds that are wider in one than in the other.

use std::fmt::Display;

use egress::AllowedHost;
use run_protocol::{
    AgentKind, AgentProgram, Bound, ExitCode, NetworkMode, OnLoop, ResourceLimits, RunLimits,
    RunSpec, ToolApproval, UserMcpFiles, Widening,
};
use sandbox_plan::{Confinement, Profile};

use crate::command_error::CommandError;
use crate::words::units;

/// Returns the bounds that are wider in `now` than in `before`.
pub(crate) fn wider_than(now: &RunSpec, before: &RunSpec) -> Vec<Widening> {
    // Without `..`, so that the compiler asks for a decision on every new field.
    let RunSpec {
        run: _,
        created_ms: _,
        name: _,
        labels: _,
        session: _,
        session_start: _,
        workspace: _,
        worktree: _,
        // It runs in the same sandbox as the agent.
        setup: _,
        saving: _,
        agent,
        model: _,
        mode,
        tool_approval,
        partial_output: _,
        extra_flags: _,
        profile: _,
        profile_text: _,
        expose: _,
        fresh_cache: _,
        network: _,
        allow_hosts: _,
        registries: _,
        // Only for hints.
        known_registries: _,
        bwrap: _,
        home: _,
        host_config_root: _,
        login_file: _,
        policy,
        user_mcp,
        repository_mcp,
        // The choice belongs to the session, not to the run.
        mcp_choice: _,
        env: _,
        // The sandbox shows only public certificates.
        certificates: _,
        home_files: _,
        secrets,
        limits,
        resources,
        wait_for_locks: _,
        retry_of: _,
        continues: _,
        restart: _,
        group,
        queue: _,
        lineage: _,
        delivers: _,
        widened: _,
        socket_dir: _,
    } = now;
    let mut found = Found(Vec::new());
    let network = sandbox(&mut found, now, before);
    found.if_wider(Bound::Agent, is_other_agent(agent, &before.agent), || {
        (agent_words(&before.agent), agent_words(agent))
    });
    found.if_wider(Bound::Mode, mode.is_none() && before.mode.is_some(), || {
        ("only reads".to_owned(), "may change files".to_owned())
    });
    let is_unasked = *tool_approval == ToolApproval::Force;
    found.if_wider(Bound::Force, is_unasked && before.tool_approval != ToolApproval::Force, || {
        ("tools that the agent's permissions allow".to_owned(), "all tools".to_owned())
    });
    if let (Some(policy), Some(had)) = (policy, &before.policy) {
        let lost = had.deny.iter().filter(|rule| !policy.deny.contains(rule));
        let new = policy.allow.iter().filter(|rule| !had.allow.contains(rule));
        let words = lost.map(|rule| format!("no longer denies {rule}"));
        let words: Vec<String> = words.chain(new.map(|rule| format!("allows {rule}"))).collect();
        found.if_wider(Bound::Permissions, !words.is_empty(), || {
            ("your rules for the last run".to_owned(), words.join(", "))
        });
    }
    let has_more = has_more_servers(user_mcp, &before.user_mcp, network);
    found.if_wider(Bound::UserMcp, has_more, || {
        (server_words(&before.user_mcp), server_words(user_mcp))
    });
    let new = repository_mcp.iter().filter(|server| !before.repository_mcp.contains(server));
    found.more(Bound::McpFromRepo, new.map(|server| &server.name));
    found.more(Bound::Secret, secrets.iter().filter(|name| !before.secrets.contains(name)));
    found.if_wider(Bound::Group, before.group.is_some() && *group != before.group, || {
        let word = |group: &Option<String>| group.clone().unwrap_or_else(|| "none".to_owned());
        (word(&before.group), word(group))
    });
    time_limits(&mut found, limits, &before.limits);
    machine_limits(&mut found, resources, &before.resources);
    found.0
}

/// Refuses a run that widens a bound that the user did not name.
pub fn check(found: &[Widening], named: &[Bound]) -> Result<(), CommandError> {
    let unnamed: Vec<Widening> =
        found.iter().filter(|widening| !named.contains(&widening.bound)).cloned().collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    let what = format!("this allows more than the session's last run: {}", sentence(&unnamed));
    let words: Vec<&str> = found.iter().map(|widening| widening.bound.word()).collect();
    let hint = format!("to allow it, add: --widen {}", words.join(","));
    Err(CommandError::new(ExitCode::Usage, what).hint(hint))
}

/// `memory 512.0 MiB → 2.0 GiB; …`
pub fn sentence(found: &[Widening]) -> String {
    let words: Vec<String> = found
        .iter()
        .map(|Widening { bound, from, to }| format!("{} {from} → {to}", bound.word()))
        .collect();
    words.join("; ")
}

struct Found(Vec<Widening>);

impl Found {
    fn if_wider(&mut self, bound: Bound, is_wider: bool, words: impl Fn() -> (String, String)) {
        if is_wider {
            let (from, to) = words();
            self.0.push(Widening { bound, from, to });
        }
    }

    /// Adds a bound whose list has new entries.
    fn more(&mut self, bound: Bound, new: impl Iterator<Item = impl Display>) {
        let new: Vec<String> = new.map(|entry| format!("`{entry}`")).collect();
        self.if_wider(bound, !new.is_empty(), || ("without".to_owned(), new.join(", ")));
    }

    /// Compares a limit; zero means no limit.
    fn limit(&mut self, bound: Bound, now: u64, before: u64, word: impl Fn(u64) -> String) {
        let word = |limit| if limit == 0 { "no limit".to_owned() } else { word(limit) };
        let is_wider = before > 0 && (now == 0 || now > before);
        self.if_wider(bound, is_wider, || (word(before), word(now)));
    }
}

/// Whether the allow-list of the later run matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostsCount {
    /// The later run uses its list, and the earlier run could not reach everything.
    Yes,
    No,
}

/// Profile, network, hosts and mounts.
fn sandbox(found: &mut Found, now: &RunSpec, before: &RunSpec) -> HostsCount {
    let profile = |spec: &RunSpec| Profile::parse(&spec.profile, &spec.profile_text).ok();
    let (profile, had) = (profile(now), profile(before));
    let is_off = |profile: &Option<Profile>| {
        profile.as_ref().is_some_and(|profile| profile.confinement() == Confinement::None)
    };
    let keys = match (&profile, &had) {
        (Some(profile), Some(had)) => profile.wider_than(had),
        _ if now.profile_text == before.profile_text => Vec::new(),
        // One of the two profiles cannot be read.
        _ => vec!["profile"],
    };
    // The effective network is compared below: a flag may override the profile.
    let keys: Vec<&str> =
        keys.into_iter().filter(|key| !matches!(*key, "network.mode" | "network.allow")).collect();
    found.if_wider(Bound::Profile, !keys.is_empty(), || {
        (before.profile.clone(), format!("{} ({})", now.profile, keys.join(", ")))
    });
    if is_off(&profile) || is_off(&had) {
        // A run without a sandbox reaches everything, and `--widen profile` allowed that.
        return HostsCount::No;
    }
    let mode = |spec: &RunSpec, profile: &Option<Profile>| {
        spec.network.or_else(|| profile.as_ref().map(Profile::network_mode))
    };
    let mode_now = mode(now, &profile).unwrap_or(NetworkMode::Host);
    let mode_before = mode(before, &had).unwrap_or(NetworkMode::None);
    found.if_wider(Bound::Network, mode_now.width() > mode_before.width(), || {
        (mode_before.word().to_owned(), mode_now.word().to_owned())
    });
    if mode_before != NetworkMode::Host {
        let reached: Vec<AllowedHost> = hosts(before.hosts(), had.as_ref()).collect();
        let is_new = |host: &AllowedHost| !reached.iter().any(|known| known.covers(host));
        let own = now.allow_hosts.iter().map(String::as_str);
        found.more(Bound::AllowHost, hosts(own, profile.as_ref()).filter(is_new));
        let registries = now.registries.iter().map(String::as_str);
        found.more(Bound::Registries, hosts(registries, None).filter(is_new));
    }
    let new = now.expose.iter().filter(|path| !before.expose.contains(path));
    found.more(Bound::Expose, new.map(|path| path.0.display()));
    match (mode_now, mode_before) {
        (NetworkMode::Allowlist, NetworkMode::None | NetworkMode::Allowlist) => HostsCount::Yes,
        _ => HostsCount::No,
    }
}

/// These hosts and the profile's.
fn hosts<'a>(
    own: impl Iterator<Item = &'a str>,
    profile: Option<&Profile>,
) -> impl Iterator<Item = AllowedHost> {
    let own = own.filter_map(|host| host.parse().ok());
    own.chain(profile.into_iter().flat_map(Profile::allowed_hosts).cloned())
}

/// A server that the user names adds its host to the allow-list; `--user-mcp` adds no host. The host is in the user's
/// file, which this code does not read, so any name may add a host.
fn has_more_servers(
    now: &Option<UserMcpFiles>,
    before: &Option<UserMcpFiles>,
    hosts: HostsCount,
) -> bool {
    match (now, before) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(now), Some(before)) => {
            let has_more_names = match (&now.only, &before.only) {
                (None, None) => false,
                (Some(_), None) => hosts == HostsCount::Yes,
                (None, Some(_)) => true,
                (Some(now), Some(before)) => now.iter().any(|name| !before.contains(name)),
            };
            now.servers != before.servers || has_more_names
        }
    }
}

fn server_words(files: &Option<UserMcpFiles>) -> String {
    match files.as_ref().map(|files| &files.only) {
        None => "none of your MCP servers".to_owned(),
        Some(None) => "your MCP servers".to_owned(),
        Some(Some(names)) => format!("your MCP servers {} with their hosts", names.join(", ")),
    }
}

fn is_other_agent(now: &AgentProgram, before: &AgentProgram) -> bool {
    if now.kind == AgentKind::Simulated && before.kind == AgentKind::Simulated {
        // The simulated agent is part of this program.
        return false;
    }
    let is_other_version = match (&now.version, &before.version) {
        (Some(now), Some(before)) => now != before,
        // The version is unknown if the agent did not answer in time. That is not a change.
        _ => false,
    };
    now.kind != before.kind
        || now.program != before.program
        || is_other_version
        || now.expose.iter().any(|path| !before.expose.contains(path))
}

fn agent_words(agent: &AgentProgram) -> String {
    let version = agent.version.as_deref().unwrap_or("unknown");
    match agent.kind {
        AgentKind::Simulated => "simulated".to_owned(),
        AgentKind::Cursor => format!("`{}` version {version}", agent.program.0.display()),
    }
}

fn time_limits(found: &mut Found, now: &RunLimits, before: &RunLimits) {
    let RunLimits {
        startup_ms,
        idle_ms,
        tool_ms,
        settle_ms,
        wall_ms,
        tool_calls,
        tokens,
        journal_bytes,
        r#loop: on_loop,
        linger_ms,
        drain_ms,
        ladder,
    } = now;
    let count = |limit: u64| limit.to_string();
    found.limit(Bound::Timeout, *wall_ms, before.wall_ms, units::duration);
    found.limit(Bound::IdleTimeout, *idle_ms, before.idle_ms, units::duration);
    found.limit(Bound::MaxToolCalls, *tool_calls, before.tool_calls, count);
    found.limit(Bound::MaxTokens, *tokens, before.tokens, count);
    found.limit(Bound::Journal, *journal_bytes, before.journal_bytes, units::bytes);
    let no_longer_ends = (*on_loop, before.r#loop) == (OnLoop::Warn, OnLoop::End);
    found.if_wider(Bound::Loop, no_longer_ends, || ("end".to_owned(), "warn".to_owned()));
    for (name, now, before) in [
        ("startup", *startup_ms, before.startup_ms),
        ("tool", *tool_ms, before.tool_ms),
        ("settle", *settle_ms, before.settle_ms),
        ("linger", *linger_ms, before.linger_ms),
        ("drain", *drain_ms, before.drain_ms),
    ] {
        let word = |limit| format!("{name} {}", units::duration(limit));
        found.limit(Bound::Limits, now, before, word);
    }
    let steps = ladder.term_after_ms.saturating_add(ladder.kill_after_ms);
    let had = before.ladder.term_after_ms.saturating_add(before.ladder.kill_after_ms);
    found.if_wider(Bound::Limits, steps > had, || {
        let word = |steps| format!("stop after {}", units::duration(steps));
        (word(had), word(steps))
    });
}

fn machine_limits(found: &mut Found, now: &ResourceLimits, before: &ResourceLimits) {
    let ResourceLimits {
        memory_bytes,
        processes,
        cpu_weight,
        cpu_milli,
        file_bytes,
        open_files,
        disk_bytes,
        required,
    } = now;
    let count = |limit: u64| limit.to_string();
    let cpus = |milli: u64| format!("{}.{:03}", milli / 1000, milli % 1000);
    found.limit(Bound::Memory, *memory_bytes, before.memory_bytes, units::bytes);
    found.limit(Bound::Processes, *processes, before.processes, count);
    found.limit(Bound::Cpus, *cpu_milli, before.cpu_milli, cpus);
    found.limit(Bound::MaxFileSize, *file_bytes, before.file_bytes, units::bytes);
    found.limit(Bound::Disk, *disk_bytes, before.disk_bytes, units::bytes);
    found.limit(Bound::Limits, *cpu_weight, before.cpu_weight, |it| format!("cpu_weight {it}"));
    found.limit(Bound::Limits, *open_files, before.open_files, |it| format!("open_files {it}"));
    found.if_wider(Bound::Limits, before.required && !required, || {
        ("limits required".to_owned(), "limits applied if possible".to_owned())
    });
}
