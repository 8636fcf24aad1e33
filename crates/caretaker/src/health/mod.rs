//! The checks that `doctor` makes. They clean up after dead runs, and change nothing else.

pub(crate) mod project;
mod promises;
pub(crate) mod trial;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use admission::admit::{has_key, host_proxy};
use admission::command_error::CommandError;
use admission::config::Config;
use admission::host::Host;
use admission::host::agent_discovery::{self, AgentChoice, agent_command};
use admission::host::disk;
use admission::host::login_file;
use admission::host::places::is_private_directory_of;
use admission::sandbox::bubblewrap::{Bubblewrap, BubblewrapError};
use admission::sandbox::profiles::{self, NamedBy};
use admission::words::units;
use ground::command::Bounds;
use ground::now_ms;
use nix::unistd::{AccessFlags, access};
use run_protocol::{AgentKind, AgentProgram, LimitBackend, NetworkMode, RunId};
use run_shim::{LimitSurvey, SocketPaths, survey_limits};
use serde::{Deserialize, Serialize};

use crate::surroundings::own_program;
use crate::view::words;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    pub(crate) status: Status,
    /// One sentence.
    pub(crate) summary: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Ok,
    /// Runs work, but the user should know something.
    Warning,
    /// Runs cannot work.
    Failure,
    /// Something that failed before made the check impossible.
    NotReached,
}

impl Status {
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Warning => "!",
            Self::Failure => "✗",
            Self::NotReached => "–",
        }
    }
}

impl Finding {
    pub(crate) fn ok(id: &'static str, summary: impl Into<String>) -> Self {
        Self { id, status: Status::Ok, summary: summary.into(), fix: None }
    }

    pub(crate) fn warning(
        id: &'static str,
        summary: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { id, status: Status::Warning, summary: summary.into(), fix: Some(fix.into()) }
    }

    fn failure(id: &'static str, summary: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { id, status: Status::Failure, summary: summary.into(), fix: Some(fix.into()) }
    }

    /// The error that a command would print.
    fn from_error(id: &'static str, error: &CommandError) -> Self {
        Self {
            id,
            status: Status::Failure,
            summary: error.message_with_causes(),
            fix: error.hint_text().map(ToOwned::to_owned),
        }
    }
}

/// All versions of this program are newer than this, so an earlier clock is wrong.
const EARLIEST_MS: u64 = 1_767_225_600_000;
/// The clocks of machines that share a directory may differ a little.
const CLOCK_TOLERANCE_MS: u64 = 5 * 60 * 1000;
/// The agent may ask its server about the login.
const LOGIN_PATIENCE: Duration = Duration::from_secs(15);

/// Runs all checks, in the order in which a run would fail.
pub(crate) fn examine(
    host: &Host,
    config: Result<&Config, CommandError>,
    agent: Option<&Path>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let usual = Config::default();
    let config = match config {
        Ok(config) => {
            let file = Config::file(&host.environment, &host.places);
            let summary = match file.exists() {
                true => format!("read from {}", file.display()),
                false => format!("all defaults; {} does not exist", file.display()),
            };
            findings.push(Finding::ok("config", summary));
            config
        }
        Err(error) => {
            findings.push(Finding::from_error("config", &error));
            &usual
        }
    };
    findings.push(profile(host, config));
    findings.extend(network(host, config));
    findings.extend(bubblewrap(host));
    let is_sandbox_sound = findings.iter().all(|finding| finding.status != Status::Failure);
    if is_sandbox_sound {
        findings.extend(promises::of(host.environment.uid));
    }
    findings.push(limits(&survey_limits(), host.environment.uid.is_root()));
    findings.extend(agent_and_login(host, config, agent));
    findings.extend(directories(host));
    findings.push(disk_space(host, config));
    findings.push(clock(host, now_ms()));
    findings
}

fn profile(host: &Host, config: &Config) -> Finding {
    match profiles::find(&host.places, &config.profile, NamedBy::Configuration) {
        Ok(found) => {
            let place = match &found.file {
                Some(file) => file.display().to_string(),
                None => "built in".to_owned(),
            };
            let description = found.profile.description();
            Finding::ok("profile", format!("`{}` ({place}): {description}", config.profile))
        }
        Err(error) => Finding::from_error("profile", &error),
    }
}

/// The network that runs get; `None` if the profile cannot be read, which another check reports.
fn network(host: &Host, config: &Config) -> Option<Finding> {
    let profile =
        profiles::find(&host.places, &config.profile, NamedBy::Configuration).ok()?.profile;
    let mode = profile.network_mode();
    Some(match mode {
        NetworkMode::Allowlist => {
            let n_hosts = profile.allowed_hosts().count() + config.allow_hosts.len();
            let hosts = units::counted(n_hosts as u64, "host", "hosts");
            let summary = format!("allowlist: {hosts}");
            match host_proxy(&host.environment) {
                Ok(None) => Finding::ok("network", summary),
                Ok(Some(proxy)) => {
                    let summary = format!("{summary}, through the proxy in `{}`", proxy.variable);
                    Finding::ok("network", summary)
                }
                Err(error) => Finding::from_error("network", &error),
            }
        }
        NetworkMode::None => Finding::warning(
            "network",
            "none: a real agent cannot reach its model",
            "set `mode = \"allowlist\"` in the profile's section [network]",
        ),
        NetworkMode::Host => Finding::warning(
            "network",
            "host: the agent reaches everything that this machine reaches, local services included",
            "set `mode = \"allowlist\"` in the profile's section [network]",
        ),
    })
}

fn bubblewrap(host: &Host) -> Vec<Finding> {
    let failure = |error: BubblewrapError| {
        let id = match &error {
            BubblewrapError::Trial { .. } => "sandbox",
            _ => "bubblewrap",
        };
        Finding::from_error(id, &CommandError::from(error))
    };
    let bubblewrap = match Bubblewrap::find(&host.environment, None) {
        Ok(bubblewrap) => bubblewrap,
        Err(error) => return vec![failure(error)],
    };
    let place = bubblewrap.path.display();
    let trial = bubblewrap.try_out();
    let version = match bubblewrap.version() {
        Ok(Some(version)) => {
            let summary = format!("{version} at {place}");
            let holes = match &trial {
                Ok(()) => bubblewrap.known_holes(version),
                Err(_) => version.known_holes(),
            };
            match holes.as_slice() {
                [] => Finding::ok("bubblewrap", summary),
                [hole, ..] => Finding {
                    id: "bubblewrap",
                    status: Status::Warning,
                    summary: format!("{summary}; {hole}"),
                    fix: None,
                },
            }
        }
        Ok(None) => Finding::warning(
            "bubblewrap",
            format!("{place} does not print its version"),
            "see what `bwrap --version` says",
        ),
        Err(error) => return vec![failure(error)],
    };
    let trial = match trial {
        Ok(()) => Finding::ok("sandbox", "user namespaces work, a trial sandbox started"),
        Err(error) => failure(error),
    };
    vec![version, trial]
}

/// The mechanism that enforces limits on this host.
fn limits(survey: &LimitSurvey, is_root: bool) -> Finding {
    let swept = match survey.swept {
        0 => String::new(),
        count => {
            let groups = units::counted(count as u64, "control group", "control groups");
            format!("; {groups} of dead runs removed")
        }
    };
    if survey.backend == LimitBackend::Rlimits {
        let processes = match is_root {
            true => "the number of processes by polling, because the kernel does not limit root",
            false => "the number of processes per run",
        };
        let summary = format!(
            "per process only (no cgroup): memory per process, and per run by polling; {processes}{swept}; {}",
            survey.refused.join("; ")
        );
        let fix = "let systemd delegate a cgroup: run caretaker in a systemd session, or in a service with `Delegate=yes` \
        and `DelegateSubgroup=supervisor`; profiles with `required = true` do not run here";
        return Finding::warning("limits", summary, fix);
    }
    let backend = words::backend(survey.backend);
    let cpu = if survey.has_cpu { " and processors" } else { ", not processors" };
    Finding::ok("limits", format!("{backend} limits memory, processes{cpu} per run{swept}"))
}

fn agent_and_login(host: &Host, config: &Config, agent: Option<&Path>) -> Vec<Finding> {
    let choice = AgentChoice::of(agent, config.agent.as_deref(), &host.environment);
    let found = own_program()
        .and_then(|program| agent_discovery::find(&choice, &host.environment, &program, &[]));
    let agent = match found {
        Ok(agent) => agent,
        Err(error) => return vec![Finding::from_error("agent", &error)],
    };
    let version = agent.version.as_deref().unwrap_or("(unknown version)");
    let found = match agent.kind {
        AgentKind::Cursor => {
            Finding::ok("agent", format!("cursor-agent {version} at {}", agent.program.0.display()))
        }
        AgentKind::Simulated => {
            Finding::ok("agent", format!("simulated agent {version}, part of caretaker"))
        }
    };
    match agent.kind {
        AgentKind::Simulated => vec![found],
        AgentKind::Cursor => vec![found, login(host, &agent)],
    }
}

/// The agent's `status --format json`. The e-mail address in it is private, so Caretaker does not read it.
#[derive(Deserialize)]
struct LoginStatus {
    #[serde(rename = "isAuthenticated")]
    is_authenticated: Option<bool>,
}

fn login(host: &Host, agent: &AgentProgram) -> Finding {
    let environment = &host.environment;
    if has_key(environment) {
        return Finding::ok("login", "API key set (a run will show whether it is valid)");
    }
    let mut command = agent_command(&agent.program.0, environment);
    command.args(["status", "--format", "json"]);
    let bounds = Bounds::of_question(LOGIN_PATIENCE);
    let answer = match ground::command::run(&mut command, None, bounds) {
        Ok(answer) => answer,
        Err(error) => {
            let summary = format!("cannot ask the agent whether it is logged in: {error}");
            return Finding::warning("login", summary, "see what `cursor-agent status` says");
        }
    };
    let status = serde_json::from_slice::<LoginStatus>(&answer.stdout).ok();
    match status.and_then(|status| status.is_authenticated) {
        Some(true) => match environment.cursor_roots() {
            Ok(roots) if login_file::find(&roots).is_some() => Finding::ok("login", "logged in"),
            _ => Finding::warning(
                "login",
                "logged in with a keychain, which a sandbox does not have",
                "set CURSOR_API_KEY, or log in again with AGENT_CLI_CREDENTIAL_STORE=file",
            ),
        },
        Some(false) => Finding::failure(
            "login",
            "not logged in",
            "log in with `cursor-agent login`, or set CURSOR_API_KEY",
        ),
        None => Finding::warning(
            "login",
            "cannot understand the agent's answer about its login",
            "see what `cursor-agent status` says",
        ),
    }
}

fn directories(host: &Host) -> Vec<Finding> {
    let mut findings = vec![state_directory(host)];
    let sockets = &host.places.sockets;
    let paths = SocketPaths::new(sockets, RunId::generate());
    findings.push(match fs::symlink_metadata(sockets) {
        _ if !paths.fit() => Finding::failure(
            "sockets",
            format!("paths below {} are too long for sockets", sockets.display()),
            "set XDG_RUNTIME_DIR to a shorter path, or unset it",
        ),
        Ok(_) if !is_private_directory_of(sockets, host.environment.uid) => Finding::failure(
            "sockets",
            format!("other users can enter {}", sockets.display()),
            format!("remove it, or: chmod 700 '{}'", sockets.display()),
        ),
        Ok(_) => Finding::ok("sockets", format!("{}", sockets.display())),
        Err(_) => {
            Finding::ok("sockets", format!("{}, created by the first run", sockets.display()))
        }
    });
    findings
}

fn state_directory(host: &Host) -> Finding {
    let state = &host.places.state;
    let path = state.display();
    match fs::metadata(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = state.ancestors().find(|ancestor| ancestor.exists());
            match parent {
                Some(parent) if access(parent, AccessFlags::W_OK).is_ok() => {
                    Finding::ok("state", format!("{path}, created by the first run"))
                }
                _ => Finding::failure(
                    "state",
                    format!("{path} does not exist and cannot be created"),
                    "set CARETAKER_HOME to a directory of your own",
                ),
            }
        }
        Err(error) => Finding::failure(
            "state",
            format!("cannot read {path}: {error}"),
            "set CARETAKER_HOME to a directory of your own",
        ),
        Ok(found) if found.uid() != host.environment.uid.as_raw() => Finding::failure(
            "state",
            format!("{path} belongs to user {}", found.uid()),
            "set CARETAKER_HOME to a directory of your own",
        ),
        Ok(_) if access(state, AccessFlags::W_OK | AccessFlags::X_OK).is_err() => Finding::failure(
            "state",
            format!("cannot write to {path}"),
            format!("chmod 700 '{path}'"),
        ),
        // `run` refuses such a directory.
        Ok(found) if found.mode() & 0o002 != 0 => Finding::failure(
            "state",
            format!("every user can write to {path}"),
            format!("chmod 700 '{path}'"),
        ),
        Ok(found) if found.mode() & 0o077 != 0 => Finding::warning(
            "state",
            format!("other users can enter {path}, which holds prompts and answers"),
            format!("chmod 700 '{path}'"),
        ),
        Ok(_) => Finding::ok("state", format!("{path}")),
    }
}

fn disk_space(host: &Host, config: &Config) -> Finding {
    let state = &host.places.state;
    match disk::free_bytes(state) {
        Ok(free) if free < config.min_free.0 => Finding::failure(
            "disk",
            format!(
                "{} free for {}, less than `min_free` ({})",
                units::bytes(free),
                state.display(),
                units::bytes(config.min_free.0)
            ),
            "free some space, or lower `min_free` in the configuration",
        ),
        Ok(free) => {
            Finding::ok("disk", format!("{} free for {}", units::bytes(free), state.display()))
        }
        Err(error) => Finding::warning(
            "disk",
            format!("cannot read the free space: {error}"),
            "see what `df` says",
        ),
    }
}

/// A run's id contains its creation time, so the newest id shows whether the clock went back.
fn clock(host: &Host, now_ms: u64) -> Finding {
    let newest = fs::read_dir(host.state.runs())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RunId>().ok())
        .max()
        .map(|run| run.created_ms());
    match newest {
        _ if now_ms < EARLIEST_MS => Finding::failure(
            "clock",
            "the clock is years behind: certificates and run ids need the right time",
            "set it, or start a time service: sudo timedatectl set-ntp true",
        ),
        Some(newest) if newest > now_ms.saturating_add(CLOCK_TOLERANCE_MS) => Finding::warning(
            "clock",
            format!(
                "the newest run is from {} in the future: the clock went back",
                units::age(newest - now_ms)
            ),
            "until the clock has caught up, `-` may not mean the latest run",
        ),
        _ => Finding::ok("clock", "plausible"),
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
