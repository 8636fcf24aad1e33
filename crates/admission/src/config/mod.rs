//! The configuration file, `config.toml`. `config/default.toml` explains every key.

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
    OnLoop, ProcessLimit, RunLimits, RunRequest, SizeLimit,
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

/// The user's configuration.
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
    pub worktree: WorktreeConfig,
}

/// The extra files and the setup command for a new worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorktreeConfig {
    pub include: Vec<String>,
    pub setup: Option<String>,
}

/// How many child runs an agent may have.
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

/// How many runs the daemon starts at once.
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

/// The limits in the configuration. Limits that are not set default to [`RunLimits::default`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    startup: Option<HumanDuration>,
    idle: Option<HumanDuration>,
    tool: Option<HumanDuration>,
    settle: Option<HumanDuration>,
    wall: Option<HumanDuration>,
    tool_calls: Option<CountLimit>,
    tokens: Option<CountLimit>,
    journal: Option<SizeLimit>,
    r#loop: Option<OnLoop>,
    linger: Option<HumanDuration>,
    drain: Option<HumanDuration>,
    memory: Option<MemoryLimit>,
    processes: Option<ProcessLimit>,
    cpus: Option<CpuLimit>,
    file_size: Option<SizeLimit>,
    disk: Option<SizeLimit>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stop {
    term_after: Option<HumanDuration>,
    kill_after: Option<HumanDuration>,
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
            worktree: WorktreeConfig::default(),
        }
    }
}

/// Why a configuration is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    line: usize,
    message: String,
}

impl Config {
    /// The path of the configuration file. The file need not exist.
    pub fn file(environment: &Environment, places: &Places) -> PathBuf {
        match environment.variable("CARETAKER_CONFIG") {
            Some(named) => environment.absolute(Path::new(named)),
            None => places.config.join("config.toml"),
        }
    }

    /// Reads the user's file. Only a file that CARETAKER_CONFIG names must exist.
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
        let Self { limits: set, stop, .. } = self;
        let mut limits = RunLimits::default();
        let ladder = &mut limits.ladder;
        for (limit, set) in [
            (&mut limits.startup_ms, set.startup),
            (&mut limits.idle_ms, set.idle),
            (&mut limits.tool_ms, set.tool),
            (&mut limits.settle_ms, set.settle),
            (&mut limits.wall_ms, set.wall),
            (&mut limits.linger_ms, set.linger),
            (&mut limits.drain_ms, set.drain),
            (&mut ladder.term_after_ms, stop.term_after),
            (&mut ladder.kill_after_ms, stop.kill_after),
        ] {
            *limit = set.map_or(*limit, HumanDuration::milliseconds);
        }
        limits.tool_calls = set.tool_calls.map_or(limits.tool_calls, |most| most.0);
        limits.tokens = set.tokens.map_or(limits.tokens, |most| most.0);
        limits.journal_bytes = set.journal.map_or(limits.journal_bytes, |most| most.0);
        limits.r#loop = set.r#loop.unwrap_or(limits.r#loop);
        limits
    }

    /// The configuration as a request layer of every new session, below the flags.
    pub fn request(&self) -> Result<RunRequest, CommandError> {
        let labels = self.labels.iter().map(|(name, value)| Label::new(name, value));
        let labels = labels.collect::<Result<_, _>>();
        let Limits { memory, processes, cpus, file_size, disk, .. } = self.limits;
        Ok(RunRequest {
            model: self.model.clone(),
            profile: Some(self.profile.clone()),
            labels: labels.or_fail_as(ExitCode::Usage, || "a label cannot be used")?,
            // A configuration that the user shares between machines may name paths that this machine lacks.
            expose: self.expose.iter().filter(|path| path.exists()).cloned().collect(),
            allow_host: self.allow_hosts.clone(),
            user_mcp: self.user_mcp,
            no_checkpoint: !self.checkpoint,
            setup: self.worktree.setup.clone(),
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
            // `simulated` is the only value that is not a path.
            if agent == Path::new("simulated") { agent } else { absolute(agent) }
        });
        Self { agent, expose: self.expose.into_iter().map(absolute).collect(), ..self }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
