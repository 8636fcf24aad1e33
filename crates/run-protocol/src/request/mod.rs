//! What a run is asked to be: the one type that the command line, the API, batches and continued runs fill in.
//!
//! A new flag is one field here: its doc comment is the help text, clap reads it from the command line, serde reads it from
//! requests and from lines of `--each`, and `over` says how layers combine in it.
//!
//! # How layers combine
//!
//! Each place that has a say makes a [`RunRequest`] of its own, and [`RunRequest::combine`] lays them on each other:
//!
//! ```text
//!   a new session        profile (limits) < configuration < flags of the command, or the API's request < line of `--each`
//!   a continued session  the run before   < flags of the command, or the API's request
//! ```
//!
//! - A layer that says nothing changes nothing.
//! - Where two layers say something, the later one wins. Marks (`labels`, `env`, `secret`) win name by name; lists that add
//!   (`expose`, `allow_host`, `after`, `after_ok`, `widen`) are joined; lists that choose (`mcp`, `mcp_from_repo`,
//!   `agent_flags`) are replaced. Switches stay on, unless a later layer has the opposite one.
//! - **Never wider:** the run before is the lowest layer of a continued run, and what configuration and profile allow by now
//!   is for new sessions. The spec that comes out is compared with the spec of the run before, and whatever allows more must
//!   be named in `widen`, or the run is refused.

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
    AgentKind, AgentMode, AllowedHost, Bound, NetworkMode, RunSpec, ToolApproval, UserMcpFiles,
};

/// What a run is asked to be. Everything may be left out; the names are those of the flags of `caretaker run`.
#[derive(
    Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize, utoipa::ToSchema,
)]
#[command(next_display_order = 100)]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// What to do. A command line brings its prompt beside the request.
    #[arg(skip)]
    pub prompt: Option<String>,
    /// The directory to work in.
    #[arg(skip)]
    #[schema(value_type = Option<String>)]
    pub workspace: Option<PathBuf>,
    /// Work in a fresh git worktree of the workspace, on a branch of its own.
    #[arg(skip)]
    pub worktree: bool,
    /// Continue this session instead of beginning one.
    #[arg(skip)]
    pub session: Option<Uuid>,
    /// The model to ask for.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Let the agent read only: to make a plan, or to answer questions. `agent` (the default) lets it change
    /// files again.
    #[arg(long, value_parser = Mode::parser())]
    pub mode: Option<Mode>,
    /// The sandbox profile: `default`, `strict`, one of your own, or `off` for none at all. Default: the profile of the
    /// session's last run; for a new session `profile` of the configuration, where `off` is refused.
    #[arg(long, visible_alias = "sandbox", value_name = "NAME")]
    pub profile: Option<String>,
    /// A name to call the run by. Taken as long as a run of that name is under way.
    #[arg(long)]
    pub name: Option<RunName>,
    /// A mark of your own; may be given several times.
    #[arg(long = "label", short, value_name = "NAME=VALUE")]
    #[serde(with = "pairs_as_object")]
    #[schema(value_type = BTreeMap<String, String>, default = json!({}))]
    pub labels: Vec<Label>,
    /// A variable for the agent, no secret; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    #[serde(with = "pairs_as_object")]
    #[schema(value_type = BTreeMap<String, String>, default = json!({}))]
    pub env: Vec<Variable>,
    /// A secret for the agent, as a variable: taken from a variable of yours or from a file, written down nowhere, and
    /// replaced in what is printed. May be given several times; a resumed run needs it again.
    #[arg(long, value_name = "NAME=env:VARIABLE|file:PATH")]
    pub secret: Vec<String>,
    /// Show this file or directory in the sandbox too, read-only; may be given several times.
    #[arg(long, value_name = "PATH")]
    #[schema(value_type = Vec<String>)]
    pub expose: Vec<PathBuf>,
    /// What of the network is inside: the hosts of the list, nothing, or all that this machine can reach. Default: as
    /// in the session's last run; for a new session as the profile says.
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::parser())]
    pub network: Option<NetworkMode>,
    /// Let the run reach this host too, `*.` in front for what is below it; may be given several times.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub allow_host: Vec<AllowedHost>,
    /// Give the agent your own MCP servers too, from ~/.cursor/mcp.json, but for those that are switched off for this
    /// workspace. They run inside the sandbox: their programs must be visible there.
    #[arg(long)]
    pub user_mcp: bool,
    /// Do without your own MCP servers, though the configuration or the session's last run has them.
    #[arg(long, conflicts_with = "user_mcp")]
    pub no_user_mcp: bool,
    /// Give the agent only the MCP servers that you name, from ~/.cursor/mcp.json. Repeat it for each. They run inside the
    /// sandbox. If one has a `url`, the run may reach its host.
    #[arg(long, value_name = "NAME", conflicts_with = "user_mcp")]
    pub mcp: Vec<String>,
    /// Give the agent this MCP server of the repository's own .cursor/mcp.json; may be given several times. See first what
    /// it would run, with `caretaker mcp show --mcp-from-repo NAME`. You allow it as it is now: should its definition
    /// change, the session's next run is refused until you allow it again.
    #[arg(long, value_name = "NAME")]
    pub mcp_from_repo: Vec<String>,
    /// Stop the run after this long, waiting included: `90s`, `20m`, `1h30m`. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<HumanDuration>,
    /// Stop the run after so much silence, while no tool is under way. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION")]
    pub idle_timeout: Option<HumanDuration>,
    /// Stop the run when the agent calls more tools than this; `none` for no limit. Default: `tool_calls` of the
    /// configuration.
    #[arg(long, value_name = "COUNT")]
    pub max_tool_calls: Option<CountLimit>,
    /// If the agent reports more tokens than this, the run ends as `quota_exceeded`. Its work stays. Cached tokens count;
    /// `none` for no limit. Default: `tokens` of the configuration.
    #[arg(long, value_name = "COUNT")]
    pub max_tokens: Option<CountLimit>,
    /// The most that the run's journal may hold, which keeps every line that the agent prints: `500MiB`, `none`. What is
    /// written there counts against `--disk` too. Default: `journal` of the configuration.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub journal: Option<SizeLimit>,
    /// The most memory for all processes of the run together: `4GiB`, `none`. Default: the profile's.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub memory: Option<MemoryLimit>,
    /// The most processes and threads at any moment; `none` for no limit.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub processes: Option<ProcessLimit>,
    /// The most processors to use: `1.5`, `none`.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub cpus: Option<CpuLimit>,
    /// The most that any one file may hold: `1GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub max_file_size: Option<SizeLimit>,
    /// The most that the run may add to the workspace, to whatever else it can write on the host, and to our record of it:
    /// `10GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub disk: Option<SizeLimit>,
    /// Run tools only as the agent's own permissions allow. Without it they run unasked: the sandbox is the guard.
    #[arg(long)]
    pub no_force: bool,
    /// Run tools unasked although there is no sandbox. Only with `--sandbox off`; in a sandbox they always do.
    #[arg(long, conflicts_with = "no_force")]
    pub force: bool,
    /// Let a continued session do more than its last run, in what is named here: the names of the flags that allow more, as
    /// in `--memory 8GiB --widen memory`. Without it everything is as it was, or narrower.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = Bound::parser())]
    pub widen: Vec<Bound>,
    /// Print the answer as it is typed.
    #[arg(long)]
    pub stream: bool,
    /// Do not save the workspace before the run: it cannot be undone then.
    #[arg(long)]
    pub no_checkpoint: bool,
    /// Mark the run as one to be continued without being asked, if a crash or a reboot cuts it off. A
    /// daemon does that when it starts; without one, have `caretaker resume --interrupted --only-restart` called then.
    #[arg(long, display_order = 800)]
    pub restart: bool,
    /// Higher ones go first; whoever waits long enough overtakes them. From -100 to 100.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = QUEUE,
          value_parser = clap::value_parser!(i32).range(-100..=100))]
    #[serde(deserialize_with = "priority")]
    #[schema(minimum = -100, maximum = 100)]
    pub priority: Option<i32>,
    /// Do not start before this long from now.
    #[arg(long, value_name = "DURATION", help_heading = QUEUE)]
    pub delay: Option<HumanDuration>,
    /// Do not start before this run is over; may be given several times.
    #[arg(long, value_name = "RUN", help_heading = QUEUE)]
    pub after: Vec<String>,
    /// Do not start before this run has succeeded, and not at all if it does not; may be given several times.
    #[arg(long, value_name = "RUN", help_heading = QUEUE)]
    pub after_ok: Vec<String>,
    /// Count the run with these: a group can have a cap of its own.
    #[arg(long, value_name = "NAME", help_heading = QUEUE)]
    pub group: Option<RunName>,
    /// What the runs of the group may spend together, in place of the budget it had: `tool_calls=500,time=8h,tokens=5M`, or
    /// `none`. When it is spent, live runs go on and no new ones start. See `caretaker group budget`.
    #[arg(long, value_name = "BUDGET", help_heading = QUEUE)]
    pub group_budget: Option<WrittenBudget>,
    /// Count the run against this account: a name of your choice for the login that it uses.
    #[arg(long, value_name = "NAME", help_heading = QUEUE)]
    pub account: Option<RunName>,
    /// The agent's program, or `simulated`. Default: the cursor-agent that is installed.
    #[arg(long, value_name = "PATH|simulated", help_heading = QUEUE, display_order = 810)]
    #[schema(value_type = Option<String>)]
    pub agent: Option<PathBuf>,
    /// Further flags for the agent. Those that caretaker depends on are refused, and so are headers with credentials:
    /// everybody can read a command line.
    #[arg(last = true, value_name = "AGENT FLAGS", help_heading = QUEUE)]
    pub agent_flags: Vec<String>,
}

/// The heading of the flags that only a daemon's queue understands.
pub const QUEUE: &str = "Queue (with a daemon)";

/// The word for the simulated agent, where a program could stand.
const SIMULATED: &str = "simulated";

impl RunRequest {
    /// Lays layers on each other, the lowest first; see the top of this file.
    pub fn combine(layers: impl IntoIterator<Item = Self>) -> Self {
        layers.into_iter().fold(Self::default(), |below, layer| layer.over(below))
    }

    /// This layer on top of another.
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
            session: self.session.or(below.session),
            model: self.model.or(below.model),
            mode: self.mode.or(below.mode),
            profile: self.profile.or(below.profile),
            name: self.name.or(below.name),
            labels: by_name(below.labels, self.labels, |label| &label.name),
            env: by_name(below.env, self.env, |variable| &variable.name),
            secret: by_name(below.secret, self.secret, |secret| secret_name(secret)),
            expose: joined(below.expose, self.expose),
            network: self.network.or(below.network),
            allow_host: joined(below.allow_host, self.allow_host),
            user_mcp,
            no_user_mcp,
            mcp,
            mcp_from_repo: chosen(below.mcp_from_repo, self.mcp_from_repo),
            timeout: self.timeout.or(below.timeout),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            max_tool_calls: self.max_tool_calls.or(below.max_tool_calls),
            max_tokens: self.max_tokens.or(below.max_tokens),
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

    /// The request that asks for what a run had: the lowest layer of the run that continues or repeats it. Its name, its
    /// session, its workspace and when it was to start were that run's own; secrets are written down nowhere.
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
            user_mcp: matches!(spec.user_mcp, Some(UserMcpFiles { only: None, .. })),
            mcp: only.unwrap_or_default(),
            mcp_from_repo: spec.repository_mcp.iter().map(|server| server.name.clone()).collect(),
            timeout: Some(HumanDuration::of_milliseconds(limits.wall_ms)),
            idle_timeout: Some(HumanDuration::of_milliseconds(limits.idle_ms)),
            max_tool_calls: Some(CountLimit(limits.tool_calls)),
            max_tokens: Some(CountLimit(limits.tokens)),
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

    /// Whether it says which of the user's own MCP servers the agent has.
    pub fn chooses_user_servers(&self) -> bool {
        self.user_mcp || self.no_user_mcp || !self.mcp.is_empty()
    }
}

/// What a secret is called: `NAME` of `NAME=env:VARIABLE`.
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

/// What the agent may do: read, or work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Mode {
    /// It makes a plan.
    Plan,
    /// It answers questions.
    Ask,
    /// It may change files.
    Agent,
}

/// The text is no mode.
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
    /// Reads the word of a mode from a command line.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        words(&[("allowlist", Self::Allowlist), ("none", Self::None), ("host", Self::Host)])
    }
}

impl Bound {
    fn parser() -> impl TypedValueParser<Value = Self> {
        let find = |word: String| Self::ALL.into_iter().find(|bound| bound.word() == word);
        PossibleValuesParser::new(Self::ALL.map(Self::word))
            .try_map(move |word| find(word).ok_or("no such bound"))
    }
}

/// A parser of a few words. clap's own for enums would print the doc comments of the variants in the help.
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
            Err(de::Error::custom("it is from -100 to 100"))
        }
        priority => Ok(priority),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
