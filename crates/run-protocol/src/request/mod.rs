//! The request for a run: the one type that the command line, the API, batches and continued runs fill in.
//!
//! A new flag is one field here. Its doc comment is the help text; clap reads the field from the command line, serde
//! reads it from requests and from lines of `--each`, and `over` defines how layers combine in it.
//!
//! # How layers combine
//!
//! Each source makes a [`RunRequest`], and [`RunRequest::combine`] combines them as layers:
//!
//! ```text
//!   a new session        profile (limits) < configuration < flags of the command, or the API's request < line of `--each`
//!   a continued session  the run before   < flags of the command, or the API's request
//! ```
//!
//! - A field that a layer leaves out changes nothing.
//! - If two layers set the same field, the later one wins. `labels`, `env` and `secret` are replaced name by name;
//!   lists that add (`expose`, `allow_host`, `registries`, `after`, `after_ok`, `widen`) are joined; lists that choose (`mcp`,
//!   `mcp_from_repo`, `agent_flags`) are replaced. Switches stay on, unless a later layer has the opposite one.
//! - **Never wider:** a continued run starts from its earlier run, not from the configuration and the profile, which
//!   may allow more by now. Admission compares the new spec with the spec of the earlier run. The user must name every
//!   wider bound in `widen`, or admission refuses the run.

mod reading;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::{Deserialize, Deserializer, Serialize, de};
use uuid::Uuid;

pub use reading::{Contradiction, NotARequest};

use crate::written::{
    CountLimit, CpuLimit, HumanDuration, Label, MemoryLimit, ProcessLimit, RunName, SizeLimit,
    Variable, WrittenBudget, pairs_as_object, text_serde,
};
use crate::{
    AgentKind, AgentMode, AllowedHost, Bound, NetworkMode, OnLoop, RunSpec, ToolApproval,
    UserMcpFiles,
};

/// The request for a run. Every field may be left out; the names are the flag names of `caretaker run`.
#[derive(
    Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize, utoipa::ToSchema,
)]
#[command(next_display_order = 100)]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// The agent's task. On the command line the prompt is not part of the request.
    #[arg(skip)]
    pub prompt: Option<String>,
    /// The directory to work in.
    #[arg(skip)]
    #[schema(value_type = Option<String>)]
    pub workspace: Option<PathBuf>,
    /// Work in a fresh git worktree of the workspace, on a branch of its own.
    #[arg(skip)]
    pub worktree: bool,
    /// Run this shell command in the sandbox before the agent, in the first run of a new worktree: `npm ci`. If it
    /// fails, the run ends (`setup_failed`). Default: `setup` in the configuration's `[worktree]`.
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Continue this session instead of beginning a new one.
    #[arg(skip)]
    pub session: Option<Uuid>,
    /// The model to ask for.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Let the agent only read: `plan` to make a plan, `ask` to answer questions. `agent` (the default) lets it change
    /// files.
    #[arg(long, value_parser = Mode::parser())]
    pub mode: Option<Mode>,
    /// The sandbox profile: `default`, `strict`, one of your own, or `off` for none at all. Default: the profile of the
    /// session's last run; for a new session `profile` in the configuration, where `off` is refused.
    #[arg(long, visible_alias = "sandbox", value_name = "NAME")]
    pub profile: Option<String>,
    /// A name for the run. No other run can have it while this run is under way.
    #[arg(long)]
    pub name: Option<RunName>,
    /// Label the run; may be given several times.
    #[arg(long = "label", short, value_name = "NAME=VALUE")]
    #[serde(with = "pairs_as_object")]
    #[schema(value_type = BTreeMap<String, String>, default = json!({}))]
    pub labels: Vec<Label>,
    /// Set a variable for the agent, not a secret; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    #[serde(with = "pairs_as_object")]
    #[schema(value_type = BTreeMap<String, String>, default = json!({}))]
    pub env: Vec<Variable>,
    /// Give the agent a secret as a variable, from one of your variables or from a file. Caretaker never writes it to
    /// disk and redacts it in the record. May be given several times; a resumed run needs it again.
    #[arg(long, value_name = "NAME=env:VARIABLE|file:PATH")]
    pub secret: Vec<String>,
    /// Also show this file or directory in the sandbox, read-only; may be given several times.
    #[arg(long, value_name = "PATH")]
    #[schema(value_type = Vec<String>)]
    pub expose: Vec<PathBuf>,
    /// Begin with empty private dependency caches. Without this, the run uses what earlier runs in the same repository
    /// left in them.
    #[arg(long)]
    pub fresh_cache: bool,
    /// The network in the sandbox: the hosts on the allow-list, nothing, or everything that this machine can reach.
    /// Default: as in the session's last run; for a new session as the profile says.
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::parser())]
    pub network: Option<NetworkMode>,
    /// Let the run also reach this host; `*.example.org` means every host below it. May be given several times.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow_host: Vec<AllowedHost>,
    /// Let the run also reach the registries that your own tools (npm, cargo, pip, uv, Go, Maven) are set up to use, and
    /// these hosts. Registries can carry data out. The profile `strict` refuses this.
    #[arg(long, value_name = "HOST,…", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub registries: Option<Vec<AllowedHost>>,
    /// Also give the agent your own MCP servers from ~/.cursor/mcp.json, except those that you switched off for this
    /// workspace. They run inside the sandbox, so their programs must be visible there.
    #[arg(long)]
    pub user_mcp: bool,
    /// Do not give the agent your own MCP servers, even if the configuration or the session's last run does.
    #[arg(long, conflicts_with = "user_mcp")]
    pub no_user_mcp: bool,
    /// Give the agent only these MCP servers from ~/.cursor/mcp.json; may be given several times. They run inside the
    /// sandbox. If a server has a `url`, the run may reach its host.
    #[arg(long, value_name = "NAME", conflicts_with = "user_mcp")]
    pub mcp: Vec<String>,
    /// Give the agent this MCP server from the repository's own .cursor/mcp.json; may be given several times. First see
    /// what it would run: `caretaker mcp show --mcp-from-repo NAME`. If its definition changes later, the session's
    /// next run is refused until you allow it again.
    #[arg(long, value_name = "NAME")]
    pub mcp_from_repo: Vec<String>,
    /// Stop the run after this time, including waiting: `90s`, `20m`, `1h30m`. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Stop the run after this much silence while no tool is under way. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub idle_timeout: Option<HumanDuration>,
    /// Stop the run if the agent makes more tool calls than this; `none` for no limit. Default: `tool_calls` in the
    /// configuration.
    #[arg(long, value_name = "COUNT")]
    pub max_tool_calls: Option<CountLimit>,
    /// Fail the run (`quota_exceeded`) if the agent reports more tokens than this, including cached ones. Its work
    /// stays. `none` for no limit. Default: `tokens` in the configuration.
    #[arg(long, value_name = "COUNT")]
    pub max_tokens: Option<CountLimit>,
    /// If the agent repeats the same tool calls and their results do not change, `warn` records that, and `end` also
    /// ends the run (`looping`). Default: `loop` in the configuration.
    #[arg(long, value_name = "ACTION", value_parser = OnLoop::parser())]
    pub r#loop: Option<OnLoop>,
    /// The largest size of the run's journal, which keeps every line that the agent prints: `500MiB`, `none`. The
    /// journal also counts against `--disk`. Default: `journal` in the configuration.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub journal: Option<SizeLimit>,
    /// The most memory for all processes of the run together: `4GiB`, `none`. Default: as the profile says.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub memory: Option<MemoryLimit>,
    /// The most processes and threads at any moment; `none` for no limit.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub processes: Option<ProcessLimit>,
    /// The most processors to use: `1.5`, `none`.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub cpus: Option<CpuLimit>,
    /// The largest file that the run may write: `1GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub max_file_size: Option<SizeLimit>,
    /// The most that the run may add to the workspace, to other writable directories of the host, and to its own
    /// record: `10GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub disk: Option<SizeLimit>,
    /// Run only tools that the agent's own permissions allow. By default all tools run: the sandbox protects the host.
    #[arg(long)]
    pub no_force: bool,
    /// Run all tools without asking, although there is no sandbox. Only with `--sandbox off`.
    #[arg(long, conflicts_with = "no_force")]
    pub force: bool,
    /// Let a continued session do more than its last run. List the flags that allow more, as in `--memory 8GiB --widen
    /// memory`. Without this the session keeps its limits or gets narrower ones.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = Bound::parser())]
    pub widen: Vec<Bound>,
    /// Print the answer as the agent writes it.
    #[arg(long)]
    pub stream: bool,
    /// Do not save the workspace before the run. The run cannot be undone.
    #[arg(long)]
    pub no_checkpoint: bool,
    /// Continue the run without asking if a crash or a reboot interrupts it. A daemon does that when it starts; without
    /// a daemon, call `caretaker resume --interrupted --only-restart`.
    #[arg(long, display_order = 800)]
    pub restart: bool,
    /// Runs with a higher priority start first; a run that waits long enough overtakes them. From -100 to 100.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = QUEUE,
          value_parser = clap::value_parser!(i32).range(-100..=100))]
    #[serde(deserialize_with = "priority")]
    #[schema(minimum = -100, maximum = 100)]
    pub priority: Option<i32>,
    /// Do not start before this much time has passed.
    #[arg(long, value_name = "DURATION", help_heading = QUEUE)]
    pub delay: Option<HumanDuration>,
    /// Do not start before this run has ended; may be given several times.
    #[arg(long, value_name = "RUN", help_heading = QUEUE)]
    pub after: Vec<String>,
    /// Do not start before this run has succeeded, and never if it fails; may be given several times.
    #[arg(long, value_name = "RUN", help_heading = QUEUE)]
    pub after_ok: Vec<String>,
    /// The group that the run belongs to. A group can have its own cap.
    #[arg(long, value_name = "NAME", help_heading = QUEUE)]
    pub group: Option<RunName>,
    /// Set the budget of the group: `tool_calls=500,time=8h,tokens=5M`, or `none`. When it is spent, live runs go on
    /// and no new runs start. See `caretaker group budget`.
    #[arg(long, value_name = "BUDGET", help_heading = QUEUE)]
    pub group_budget: Option<WrittenBudget>,
    /// The account that the run counts against: your own name for the login that it uses.
    #[arg(long, value_name = "NAME", help_heading = QUEUE)]
    pub account: Option<RunName>,
    /// The agent's program, or `simulated`. Default: the installed cursor-agent.
    #[arg(long, value_name = "PATH|simulated", help_heading = QUEUE, display_order = 810)]
    #[schema(value_type = Option<String>)]
    pub agent: Option<PathBuf>,
    /// More flags for the agent. Caretaker refuses flags that it sets itself, and headers with credentials: every user
    /// of the machine can read a command line.
    #[arg(last = true, value_name = "AGENT FLAGS", help_heading = QUEUE)]
    pub agent_flags: Vec<String>,
}

/// The help heading of the flags that need a daemon.
pub const QUEUE: &str = "Queue (with a daemon)";

/// The word for the simulated agent, instead of a path.
const SIMULATED: &str = "simulated";

impl RunRequest {
    /// Combines layers, lowest first; see the top of this file.
    pub fn combine(layers: impl IntoIterator<Item = Self>) -> Self {
        layers.into_iter().fold(Self::default(), |below, layer| layer.over(below))
    }

    /// Puts this layer on top of another.
    fn over(self, below: Self) -> Self {
        let servers = if self.chooses_user_servers() { &self } else { &below };
        let (user_mcp, no_user_mcp) = (servers.user_mcp, servers.no_user_mcp);
        let mcp = servers.mcp.clone();
        let approval = if self.force || self.no_force { &self } else { &below };
        let (force, no_force) = (approval.force, approval.no_force);
        Self {
            prompt: self.prompt.or(below.prompt),
            workspace: self.workspace.or(below.workspace),
            worktree: self.worktree || below.worktree,
            setup: self.setup.or(below.setup),
            session: self.session.or(below.session),
            model: self.model.or(below.model),
            mode: self.mode.or(below.mode),
            profile: self.profile.or(below.profile),
            name: self.name.or(below.name),
            labels: by_name(below.labels, self.labels, |label| &label.name),
            env: by_name(below.env, self.env, |variable| &variable.name),
            secret: by_name(below.secret, self.secret, |secret| secret_name(secret)),
            expose: joined(below.expose, self.expose),
            fresh_cache: self.fresh_cache || below.fresh_cache,
            network: self.network.or(below.network),
            allow_host: joined(below.allow_host, self.allow_host),
            registries: match (below.registries, self.registries) {
                (Some(below), Some(above)) => Some(joined(below, above)),
                (below, above) => above.or(below),
            },
            user_mcp,
            no_user_mcp,
            mcp,
            mcp_from_repo: chosen(below.mcp_from_repo, self.mcp_from_repo),
            timeout: self.timeout.or(below.timeout),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            max_tool_calls: self.max_tool_calls.or(below.max_tool_calls),
            max_tokens: self.max_tokens.or(below.max_tokens),
            r#loop: self.r#loop.or(below.r#loop),
            journal: self.journal.or(below.journal),
            memory: self.memory.or(below.memory),
            processes: self.processes.or(below.processes),
            cpus: self.cpus.or(below.cpus),
            max_file_size: self.max_file_size.or(below.max_file_size),
            disk: self.disk.or(below.disk),
            no_force,
            force,
            widen: joined(below.widen, self.widen),
            stream: self.stream || below.stream,
            no_checkpoint: self.no_checkpoint || below.no_checkpoint,
            restart: self.restart || below.restart,
            priority: self.priority.or(below.priority),
            delay: self.delay.or(below.delay),
            after: joined(below.after, self.after),
            after_ok: joined(below.after_ok, self.after_ok),
            group: self.group.or(below.group),
            group_budget: self.group_budget.or(below.group_budget),
            account: self.account.or(below.account),
            agent: self.agent.or(below.agent),
            agent_flags: chosen(below.agent_flags, self.agent_flags),
        }
    }

    /// A request for the same settings as an earlier run: the lowest layer of the run that continues or repeats it. It
    /// leaves out name, session, workspace, set-up command and start time, which belong to that run alone, and secrets,
    /// which are never in a file.
    pub fn of_run(spec: &RunSpec) -> Self {
        let RunSpec { limits, resources, queue, .. } = spec;
        let only = spec.user_mcp.as_ref().and_then(|files| files.only.clone());
        let pair = |(name, value): (&String, &String)| (name.clone(), value.clone());
        Self {
            model: spec.model.clone(),
            mode: Some(spec.mode.into()),
            profile: Some(spec.profile.clone()),
            labels: spec
                .labels
                .iter()
                .map(pair)
                .map(|it| Label { name: it.0, value: it.1 })
                .collect(),
            env: spec.env.iter().map(pair).map(|it| Variable { name: it.0, value: it.1 }).collect(),
            expose: spec.expose.iter().map(|path| path.0.clone()).collect(),
            network: spec.network,
            allow_host: spec.allow_hosts.iter().filter_map(|host| host.parse().ok()).collect(),
            registries: (!spec.registries.is_empty())
                .then(|| spec.registries.iter().filter_map(|host| host.parse().ok()).collect()),
            user_mcp: matches!(spec.user_mcp, Some(UserMcpFiles { only: None, .. })),
            mcp: only.unwrap_or_default(),
            mcp_from_repo: spec.repository_mcp.iter().map(|server| server.name.clone()).collect(),
            timeout: Some(HumanDuration::of_milliseconds(limits.wall_ms)),
            idle_timeout: Some(HumanDuration::of_milliseconds(limits.idle_ms)),
            max_tool_calls: Some(CountLimit(limits.tool_calls)),
            max_tokens: Some(CountLimit(limits.tokens)),
            r#loop: Some(limits.r#loop),
            journal: Some(SizeLimit(limits.journal_bytes)),
            memory: Some(MemoryLimit(resources.memory_bytes)),
            processes: Some(ProcessLimit(resources.processes)),
            cpus: Some(CpuLimit(resources.cpu_milli)),
            max_file_size: Some(SizeLimit(resources.file_bytes)),
            disk: Some(SizeLimit(resources.disk_bytes)),
            no_force: spec.tool_approval == ToolApproval::AllowList,
            stream: spec.partial_output,
            no_checkpoint: spec.saving.is_none(),
            restart: spec.restart,
            priority: queue.as_ref().map(|terms| terms.priority),
            group: spec.group.as_ref().and_then(|group| group.parse().ok()),
            account: queue.as_ref().and_then(|terms| terms.account.as_ref()?.parse().ok()),
            agent: Some(match spec.agent.kind {
                AgentKind::Simulated => SIMULATED.into(),
                AgentKind::Cursor => spec.agent.program.0.clone(),
            }),
            agent_flags: spec.extra_flags.clone(),
            ..Self::default()
        }
    }

    /// True if the request chooses which of the user's own MCP servers the agent gets.
    pub fn chooses_user_servers(&self) -> bool {
        self.user_mcp || self.no_user_mcp || !self.mcp.is_empty()
    }
}

/// The `NAME` in `NAME=env:VARIABLE`.
fn secret_name(secret: &str) -> &str {
    secret.split_once('=').map_or(secret, |(name, _)| name)
}

fn by_name<T>(below: Vec<T>, above: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
    let is_named = |it: &T| above.iter().any(|other| name(other) == name(it));
    let mut all: Vec<T> = below.into_iter().filter(|it| !is_named(it)).collect();
    all.extend(above);
    all
}

fn joined<T: PartialEq>(mut below: Vec<T>, above: Vec<T>) -> Vec<T> {
    for entry in above {
        if !below.contains(&entry) {
            below.push(entry);
        }
    }
    below
}

fn chosen<T>(below: Vec<T>, above: Vec<T>) -> Vec<T> {
    if above.is_empty() { below } else { above }
}

/// The agent's mode: it may only read, or also change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Mode {
    /// Make a plan.
    Plan,
    /// Answer questions.
    Ask,
    /// Change files.
    Agent,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mode; write `plan`, `ask` or `agent`")]
pub struct NotAMode(String);

impl Mode {
    const WORDS: [(&str, Self); 3] =
        [("plan", Self::Plan), ("ask", Self::Ask), ("agent", Self::Agent)];

    fn parser() -> impl TypedValueParser<Value = Self> {
        words(&Self::WORDS)
    }
}

impl FromStr for Mode {
    type Err = NotAMode;

    fn from_str(text: &str) -> Result<Self, NotAMode> {
        let found = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, mode)| mode).ok_or_else(|| NotAMode(text.to_owned()))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.into_iter().find(|(_, mode)| mode == self);
        formatter.write_str(word.map_or("", |(word, _)| word))
    }
}

text_serde!(Mode, "`plan`, `ask` or `agent`", {});

impl From<Mode> for Option<AgentMode> {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Plan => Some(AgentMode::Plan),
            Mode::Ask => Some(AgentMode::Ask),
            Mode::Agent => None,
        }
    }
}

impl From<Option<AgentMode>> for Mode {
    fn from(mode: Option<AgentMode>) -> Self {
        match mode {
            Some(AgentMode::Plan) => Self::Plan,
            Some(AgentMode::Ask) => Self::Ask,
            None => Self::Agent,
        }
    }
}

impl NetworkMode {
    /// clap's parser for the mode.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        words(&[("allowlist", Self::Allowlist), ("none", Self::None), ("host", Self::Host)])
    }
}

impl OnLoop {
    fn parser() -> impl TypedValueParser<Value = Self> {
        words(&Self::WORDS)
    }
}

impl Bound {
    fn parser() -> impl TypedValueParser<Value = Self> {
        let find = |word: String| Self::ALL.iter().find(|bound| bound.word() == word);
        PossibleValuesParser::new(Self::ALL.iter().map(|bound| bound.word()))
            .try_map(move |word| find(word).copied().ok_or("no such bound"))
    }
}

/// A parser for a few words. clap's own parser for enums would print the variants' doc comments in the help.
fn words<T: Copy + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(known.iter().map(|(word, _)| *word)).try_map(move |word: String| {
        let found = known.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).ok_or("no such word")
    })
}

fn priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    match Option::<i32>::deserialize(deserializer)? {
        Some(number) if !(-100..=100).contains(&number) => {
            Err(de::Error::custom("it must be from -100 to 100"))
        }
        priority => Ok(priority),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
