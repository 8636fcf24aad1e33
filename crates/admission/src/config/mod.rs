//! The configuration file: `config.toml`, whose every key is explained in `config/default.toml`.

pub mod caps;
pub mod hook_options;
pub mod hooks;
pub mod retention;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use run_protocol::{
    AllowedHost, ByteSize, CountLimit, CpuLimit, ExitCode, HumanDuration, Label, MemoryLimit,
    ProcessLimit, RunLimits, RunRequest, SizeLimit, StopLadder,
};
use serde::Deserialize;

use crate::budgets::BudgetsConfig;
use crate::command_error::{CommandError, OrFail};
use crate::host::environment::Environment;
use crate::host::places::Places;
use caps::Caps;
use hook_options::HookConfig;
use retention::RetentionConfig;

/// The file with every key, its default and its explanation.
pub const DEFAULT_FILE: &str = include_str!("../../../../config/default.toml");

/// What the user decided once for all runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub profile: String,
    pub model: Option<String>,
    pub agent: Option<PathBuf>,
    pub expose: Vec<PathBuf>,
    pub allow_hosts: Vec<AllowedHost>,
    pub user_mcp: bool,
    pub min_free: ByteSize,
    pub resume_prompt: String,
    pub retries: u32,
    pub retry_after: HumanDuration,
    pub checkpoint: bool,
    pub checkpoint_within: HumanDuration,
    pub checkpoint_size: ByteSize,
    pub checkpoints_kept: u32,
    pub labels: BTreeMap<String, String>,
    limits: Limits,
    stop: Stop,
    pub queue: QueueConfig,
    pub hooks: Vec<HookConfig>,
    pub budgets: BudgetsConfig,
    pub retention: RetentionConfig,
    pub children: ChildrenConfig,
}

/// How many runs the agent of a run may have work for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChildrenConfig {
    pub depth: u32,
    pub at_once: u32,
    pub in_all: u32,
}

impl Default for ChildrenConfig {
    fn default() -> Self {
        Self { depth: 2, at_once: 8, in_all: 64 }
    }
}

/// How many runs the daemon lets be under way at once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    pub cap: u32,
    pub ageing: HumanDuration,
    pub groups: BTreeMap<String, u32>,
    pub models: BTreeMap<String, u32>,
    pub accounts: BTreeMap<String, u32>,
}

impl QueueConfig {
    pub fn caps(&self) -> Caps {
        Caps {
            total: self.cap,
            groups: self.groups.clone(),
            models: self.models.clone(),
            accounts: self.accounts.clone(),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            cap: 8,
            ageing: HumanDuration::Limited(Duration::from_secs(60)),
            groups: BTreeMap::new(),
            models: BTreeMap::new(),
            accounts: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    startup: HumanDuration,
    idle: HumanDuration,
    tool: HumanDuration,
    settle: HumanDuration,
    wall: HumanDuration,
    tool_calls: CountLimit,
    tokens: CountLimit,
    journal: SizeLimit,
    linger: HumanDuration,
    drain: HumanDuration,
    memory: Option<MemoryLimit>,
    processes: Option<ProcessLimit>,
    cpus: Option<CpuLimit>,
    file_size: Option<SizeLimit>,
    disk: Option<SizeLimit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stop {
    term_after: HumanDuration,
    kill_after: HumanDuration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profile: "default".to_owned(),
            model: None,
            agent: None,
            expose: Vec::new(),
            allow_hosts: Vec::new(),
            user_mcp: false,
            min_free: ByteSize(2 << 30),
            resume_prompt: "Continue where you were interrupted.".to_owned(),
            retries: 0,
            retry_after: HumanDuration::Limited(Duration::from_secs(10)),
            checkpoint: true,
            checkpoint_within: HumanDuration::Limited(Duration::from_secs(30)),
            checkpoint_size: ByteSize(2 << 30),
            checkpoints_kept: 20,
            labels: BTreeMap::new(),
            limits: Limits::default(),
            stop: Stop::default(),
            queue: QueueConfig::default(),
            hooks: Vec::new(),
            budgets: BudgetsConfig::default(),
            retention: RetentionConfig::default(),
            children: ChildrenConfig::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let limits = RunLimits::default();
        Self {
            startup: HumanDuration::of_milliseconds(limits.startup_ms),
            idle: HumanDuration::of_milliseconds(limits.idle_ms),
            tool: HumanDuration::of_milliseconds(limits.tool_ms),
            settle: HumanDuration::of_milliseconds(limits.settle_ms),
            wall: HumanDuration::of_milliseconds(limits.wall_ms),
            tool_calls: CountLimit(limits.tool_calls),
            tokens: CountLimit(limits.tokens),
            journal: SizeLimit(limits.journal_bytes),
            linger: HumanDuration::of_milliseconds(limits.linger_ms),
            drain: HumanDuration::of_milliseconds(limits.drain_ms),
            memory: None,
            processes: None,
            cpus: None,
            file_size: None,
            disk: None,
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        let ladder = StopLadder::default();
        Self {
            term_after: HumanDuration::of_milliseconds(ladder.term_after_ms),
            kill_after: HumanDuration::of_milliseconds(ladder.kill_after_ms),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    line: usize,
    message: String,
}

impl Config {
    /// The file that would be read, whether it is there or not.
    pub fn file(environment: &Environment, places: &Places) -> PathBuf {
        match environment.variable("CARETAKER_CONFIG") {
            Some(named) => environment.absolute(Path::new(named)),
            None => places.config.join("config.toml"),
        }
    }

    /// Reads the user's file; a file that nobody named need not be there.
    pub fn load(environment: &Environment, places: &Places) -> Result<Self, CommandError> {
        let file = Self::file(environment, places);
        let refused = || {
            let what = format!("the configuration `{}` cannot be used", file.display());
            CommandError::new(ExitCode::Usage, what)
        };
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && environment.variable("CARETAKER_CONFIG").is_none() =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(refused().because(error)),
        };
        let config = Self::parse(&text).map_err(|error| {
            refused().because(error).hint("see every key with `caretaker config`")
        })?;
        let directory = file.parent().unwrap_or(Path::new("/"));
        Ok(config.with_absolute_paths(&environment.home, directory))
    }

    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start).min(text.len());
            ConfigError {
                line: text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1,
                message: error.message().to_owned(),
            }
        })
    }

    pub(crate) fn run_limits(&self) -> RunLimits {
        let limits = &self.limits;
        let Limits { startup, idle, tool, settle, wall, linger, drain, .. } = limits;
        RunLimits {
            startup_ms: startup.milliseconds(),
            idle_ms: idle.milliseconds(),
            tool_ms: tool.milliseconds(),
            settle_ms: settle.milliseconds(),
            wall_ms: wall.milliseconds(),
            tool_calls: limits.tool_calls.0,
            tokens: limits.tokens.0,
            journal_bytes: limits.journal.0,
            linger_ms: linger.milliseconds(),
            drain_ms: drain.milliseconds(),
            ladder: StopLadder {
                term_after_ms: self.stop.term_after.milliseconds(),
                kill_after_ms: self.stop.kill_after.milliseconds(),
            },
        }
    }

    /// What the configuration asks of every new session: the layer below the flags.
    pub fn request(&self) -> Result<RunRequest, CommandError> {
        let labels = self.labels.iter().map(|(name, value)| Label::new(name, value));
        let labels = labels.collect::<Result<_, _>>();
        let Limits { memory, processes, cpus, file_size, disk, .. } = self.limits;
        Ok(RunRequest {
            model: self.model.clone(),
            profile: Some(self.profile.clone()),
            labels: labels.or_fail_as(ExitCode::Usage, || "a label cannot be used")?,
            // A configuration may be shared between machines that do not all have the same.
            expose: self.expose.iter().filter(|path| path.exists()).cloned().collect(),
            allow_host: self.allow_hosts.clone(),
            user_mcp: self.user_mcp,
            no_checkpoint: !self.checkpoint,
            memory,
            processes,
            cpus,
            max_file_size: file_size,
            disk,
            ..RunRequest::default()
        })
    }

    fn with_absolute_paths(self, home: &Path, directory: &Path) -> Self {
        let absolute = |path: PathBuf| match path.strip_prefix("~") {
            Ok(below) => home.join(below),
            Err(_) => directory.join(path),
        };
        let agent = self.agent.map(|agent| {
            // The one value that is a word and no path.
            if agent == Path::new("simulated") { agent } else { absolute(agent) }
        });
        Self { agent, expose: self.expose.into_iter().map(absolute).collect(), ..self }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
