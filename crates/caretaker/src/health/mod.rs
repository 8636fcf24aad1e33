//! What `doctor` looks at. Everything is looked at, nothing is changed but what dead runs left behind.

mod promises;

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

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    pub(crate) status: Status,
    /// One sentence.
    pub(crate) summary: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Ok,
    /// Runs work, but something should be known.
    Warning,
    /// Runs cannot work.
    Failure,
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

    /// An error of a command, as it would be told there.
    fn from_error(id: &'static str, error: &CommandError) -> Self {
        Self {
            id,
            status: Status::Failure,
            summary: error.message_with_causes(),
            fix: error.hint_text().map(ToOwned::to_owned),
        }
    }
}

/// No version of this program is older.
const EARLIEST_MS: u64 = 1_767_225_600_000;
/// Clocks of machines that share a directory may differ a little.
const CLOCK_TOLERANCE_MS: u64 = 5 * 60 * 1000;
/// Asking for the login may go over the network.
const LOGIN_PATIENCE: Duration = Duration::from_secs(15);

/// Looks at everything, in the order in which a run would fail.
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

/// What runs reach of the network; nothing where the profile cannot be read, which is told already.
fn network(host: &Host, config: &Config) -> Option<Finding> {
    let profile =
        profiles::find(&host.places, &config.profile, NamedBy::Configuration).ok()?.profile;
    let mode = profile.network_mode();
    Some(match mode {
        NetworkMode::Allowlist => {
            let n_hosts = profile.allowed_hosts().count() + config.allow_hosts.len();
            let hosts = units::counted(n_hosts as u64, "entry", "entries");
            let summary = format!("`allowlist`: {hosts} of hosts, nothing else is reached");
            match host_proxy(&host.environment) {
                Ok(None) => Finding::ok("network", summary),
                Ok(Some(proxy)) => {
                    let summary =
                        format!("{summary}; by the proxy that `{}` names", proxy.variable);
                    Finding::ok("network", summary)
                }
                Err(error) => Finding::from_error("network", &error),
            }
        }
        NetworkMode::None => Finding::warning(
            "network",
            "`none`: nothing is reached, so a real agent cannot think",
            "set `mode = \"allowlist\"` in the profile's section [network]",
        ),
        NetworkMode::Host => Finding::warning(
            "network",
            "`host`: everything that this machine reaches, its own services and its neighbours included",
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
    let version = match bubblewrap.version() {
        Ok(Some(version)) => {
            let summary = format!("{version} at {place}");
            match version.known_holes().as_slice() {
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
            format!("{place} does not say its version"),
            "see what `bwrap --version` says",
        ),
        Err(error) => return vec![failure(error)],
    };
    let trial = match bubblewrap.try_out() {
        Ok(()) => Finding::ok("sandbox", "user namespaces work, a trial sandbox was made"),
        Err(error) => failure(error),
    };
    vec![version, trial]
}

/// What holds a run to its limits here.
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
            true => {
                "and the number of processes only by looking, since the kernel does not hold root to it"
            }
            false => "and the number of processes for each run",
        };
        let summary = format!(
            "no cgroup can be had: memory is held for each process, and for all of a run by looking now and then, {processes}{swept}; {}",
            survey.refused.join("; ")
        );
        let fix = "let systemd delegate one: run caretaker in a session of systemd's, or in a service with `Delegate=yes` \
                   and `DelegateSubgroup=supervisor`; profiles with `required = true` do not run here";
        return Finding::warning("limits", summary, fix);
    }
    let backend = words::backend(survey.backend);
    let cpu = if survey.has_cpu { " and processors" } else { ", not processors" };
    Finding::ok("limits", format!("{backend} holds memory, processes{cpu} of a whole run{swept}"))
}

fn agent_and_login(host: &Host, config: &Config, agent: Option<&Path>) -> Vec<Finding> {
    let choice = AgentChoice::of(agent, config.agent.as_deref(), &host.environment);
    let found = own_program()
        .and_then(|program| agent_discovery::find(&choice, &host.environment, &program, None));
    let agent = match found {
        Ok(agent) => agent,
        Err(error) => return vec![Finding::from_error("agent", &error)],
    };
    let version = agent.version.as_deref().unwrap_or("of unknown version");
    let found = match agent.kind {
        AgentKind::Cursor => {
            Finding::ok("agent", format!("cursor-agent {version} at {}", agent.program.0.display()))
        }
        AgentKind::Simulated => {
            Finding::ok("agent", format!("the simulated agent {version}, part of caretaker"))
        }
    };
    match agent.kind {
        AgentKind::Simulated => vec![found],
        AgentKind::Cursor => vec![found, login(host, &agent)],
    }
}

/// What `status --format json` tells of the login. The e-mail address beside it is nobody's business.
#[derive(Deserialize)]
struct LoginStatus {
    #[serde(rename = "isAuthenticated")]
    is_authenticated: Option<bool>,
}

fn login(host: &Host, agent: &AgentProgram) -> Finding {
    let environment = &host.environment;
    if has_key(environment) {
        return Finding::ok("login", "a key is set; whether it is valid shows in a run");
    }
    let mut command = agent_command(&agent.program.0, environment);
    command.args(["status", "--format", "json"]);
    let bounds = Bounds::of_question(LOGIN_PATIENCE);
    let answer = match ground::command::run(&mut command, None, bounds) {
        Ok(answer) => answer,
        Err(error) => {
            let summary = format!("the agent does not tell whether it is logged in: {error}");
            return Finding::warning("login", summary, "see what `cursor-agent status` says");
        }
    };
    let status = serde_json::from_slice::<LoginStatus>(&answer.stdout).ok();
    match status.and_then(|status| status.is_authenticated) {
        Some(true) => match environment.cursor_roots() {
            Ok(roots) if login_file::find(&roots).is_some() => Finding::ok("login", "logged in"),
            _ => Finding::warning(
                "login",
                "logged in, but not with a file, and a sandbox has no keychain",
                "set CURSOR_API_KEY, or log in anew with AGENT_CLI_CREDENTIAL_STORE=file",
            ),
        },
        Some(false) => Finding::failure(
            "login",
            "not logged in",
            "log in with `cursor-agent login`, or set CURSOR_API_KEY",
        ),
        None => Finding::warning(
            "login",
            "the agent's answer about its login is not understood",
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
            format!("{} is not a directory that only you can enter", sockets.display()),
            format!("remove it, or: chmod 700 '{}'", sockets.display()),
        ),
        Ok(_) => Finding::ok("sockets", format!("{}", sockets.display())),
        Err(_) => Finding::ok("sockets", format!("{}, made with the first run", sockets.display())),
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
                    Finding::ok("state", format!("{path}, made with the first run"))
                }
                _ => Finding::failure(
                    "state",
                    format!("{path} does not exist and cannot be made"),
                    "set CARETAKER_HOME to a directory of your own",
                ),
            }
        }
        Err(error) => Finding::failure(
            "state",
            format!("{path} cannot be examined: {error}"),
            "set CARETAKER_HOME to a directory of your own",
        ),
        Ok(found) if found.uid() != host.environment.uid.as_raw() => Finding::failure(
            "state",
            format!("{path} belongs to the user with id {}", found.uid()),
            "set CARETAKER_HOME to a directory of your own",
        ),
        Ok(_) if access(state, AccessFlags::W_OK | AccessFlags::X_OK).is_err() => Finding::failure(
            "state",
            format!("{path} cannot be written"),
            format!("chmod 700 '{path}'"),
        ),
        // `run` refuses such a directory.
        Ok(found) if found.mode() & 0o002 != 0 => Finding::failure(
            "state",
            format!("{path} can be written by everybody"),
            format!("chmod 700 '{path}'"),
        ),
        Ok(found) if found.mode() & 0o077 != 0 => Finding::warning(
            "state",
            format!("{path} can be entered by others, and prompts and answers are in it"),
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
                "{} free for {}, less than the {} that `min_free` asks for",
                units::bytes(free),
                state.display(),
                units::bytes(config.min_free.0)
            ),
            "make room, or lower `min_free` in the configuration",
        ),
        Ok(free) => {
            Finding::ok("disk", format!("{} free for {}", units::bytes(free), state.display()))
        }
        Err(error) => Finding::warning(
            "disk",
            format!("nobody can say how much room there is: {error}"),
            "see what `df` says",
        ),
    }
}

/// Ids of runs hold the time of their making, so the newest one tells whether the clock went back.
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
            "the clock is years behind: certificates and ids of runs need it",
            "set it, or start a time service: sudo timedatectl set-ntp true",
        ),
        Some(newest) if newest > now_ms.saturating_add(CLOCK_TOLERANCE_MS) => Finding::warning(
            "clock",
            format!(
                "the newest run was made {} in the future, so the clock went back",
                units::age(newest - now_ms)
            ),
            "the latest run is not the one that `-` means until the clock has caught up",
        ),
        _ => Finding::ok("clock", "plausible"),
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
