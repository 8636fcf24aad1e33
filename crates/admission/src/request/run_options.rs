//! What can be said about any run, whether it begins a session or continues one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use egress::AllowedHost;
use run_protocol::{AgentMode, Bound, NetworkMode};

use crate::budgets::CountLimit;
use crate::request::limit_options::{LimitOptions, SizeLimit};
use crate::request::queue_options::QueueOptions;
use crate::request::run_marks::{Label, RunName, Variable};
use crate::words::human_duration::HumanDuration;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunOptions {
    /// The model to ask for.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Let the agent read only: to make a plan, or to answer questions. `agent` (the default) lets it change
    /// files again.
    #[arg(long)]
    pub mode: Option<Mode>,
    /// The sandbox profile: `default`, `strict`, one of your own, or `off` for none at all. Default: the profile of the
    /// session's last run; for a new session `profile` of the configuration, where `off` is refused.
    #[arg(long, visible_alias = "sandbox", value_name = "NAME")]
    pub profile: Option<String>,
    /// Print the run's id and leave it alone.
    #[arg(long, short, conflicts_with = "json")]
    pub detach: bool,
    /// A name to call the run by. Taken as long as a run of that name is under way.
    #[arg(long)]
    pub name: Option<RunName>,
    /// A mark of your own; may be given several times.
    #[arg(long = "label", short, value_name = "NAME=VALUE")]
    pub labels: Vec<Label>,
    /// A variable for the agent, no secret; may be given several times.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub variables: Vec<Variable>,
    /// A secret for the agent, as a variable: taken from a variable of yours or from a file, written down nowhere, and
    /// replaced in what is printed. May be given several times; a resumed run needs it again.
    #[arg(long = "secret", value_name = "NAME=env:VARIABLE|file:PATH")]
    pub secrets: Vec<String>,
    /// Show this file or directory in the sandbox too, read-only; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub expose: Vec<PathBuf>,
    /// What of the network is inside: the hosts of the list, nothing, or all that this machine can reach. Default: as
    /// in the session's last run; for a new session as the profile says.
    #[arg(long, value_name = "MODE")]
    pub network: Option<Network>,
    /// Let the run reach this host too, `*.` in front for what is below it; may be given several times.
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    pub allow_hosts: Vec<AllowedHost>,
    /// Give the agent your own MCP servers too, from ~/.cursor/mcp.json, but for those that are switched off for this
    /// workspace. They run inside the sandbox: their programs must be visible there.
    #[arg(long)]
    pub user_mcp: bool,
    /// Do without your own MCP servers, though the configuration or the session's last run has them.
    #[arg(long, conflicts_with = "user_mcp")]
    pub no_user_mcp: bool,
    #[command(flatten)]
    pub servers: ServerOptions,
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
    #[command(flatten)]
    pub limits: LimitOptions,
    /// Run tools only as the agent's own permissions allow. Without it they run unasked: the sandbox is the guard.
    #[arg(long)]
    pub no_force: bool,
    /// Run tools unasked although there is no sandbox. Only with `--sandbox off`; in a sandbox they always do.
    #[arg(long, conflicts_with = "no_force")]
    pub force: bool,
    /// Let a continued session do more than its last run, in what is named here: the names of the flags that allow more, as
    /// in `--memory 8GiB --widen memory`. Without it everything is as it was, or narrower.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = bound_parser())]
    pub widen: Vec<Bound>,
    /// Print the answer as it is typed.
    #[arg(long)]
    pub stream: bool,
    /// Do not save the workspace before the run: it cannot be undone then.
    #[arg(long)]
    pub no_checkpoint: bool,
    /// Queue behind the run that holds the session or the workspace, instead of failing.
    #[arg(long)]
    pub wait: bool,
    /// Try again so often, each time with a run of its own, if the network, a rate limit or the agent's configuration
    /// failed before any tool was called. Only for runs that are followed: nobody is there to try again for others.
    /// Default: `retries` of the configuration.
    #[arg(long, value_name = "N", conflicts_with = "detach")]
    pub retries: Option<u32>,
    /// Mark the run as one to be continued without being asked, if a crash or a reboot cuts it off. A
    /// daemon does that when it starts; without one, have `caretaker resume --interrupted --only-restart` called then.
    #[arg(long)]
    pub restart: bool,
    #[command(flatten)]
    pub queue: QueueOptions,
    /// The agent's program, or `simulated`. Default: the cursor-agent that is installed.
    #[arg(long, value_name = "PATH|simulated")]
    pub agent: Option<PathBuf>,
    /// Print one JSON object per event, as `tail --json` does.
    #[arg(long)]
    pub json: bool,
    /// Further flags for the agent. Those that caretaker depends on are refused, and so are headers with credentials:
    /// everybody can read a command line.
    #[arg(last = true, value_name = "AGENT FLAGS")]
    pub agent_flags: Vec<OsString>,
}

/// MCP servers by name.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServerOptions {
    /// Give the agent only the MCP servers that you name, from ~/.cursor/mcp.json. Repeat it for each. They run inside the
    /// sandbox. If one has a `url`, the run may reach its host.
    #[arg(long = "mcp", value_name = "NAME", conflicts_with = "user_mcp")]
    pub mcp: Vec<String>,
    /// Give the agent this MCP server of the repository's own .cursor/mcp.json; may be given several times. See first what
    /// it would run, with `caretaker mcp show --mcp-from-repo NAME`. You allow it as it is now: should its definition
    /// change, the session's next run is refused until you allow it again.
    #[arg(long = "mcp-from-repo", value_name = "NAME")]
    pub mcp_from_repo: Vec<String>,
}

impl ServerOptions {
    pub fn is_empty(&self) -> bool {
        self.mcp.is_empty() && self.mcp_from_repo.is_empty()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Mode {
    Plan,
    Ask,
    Agent,
}

impl From<Mode> for Option<AgentMode> {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Plan => Some(AgentMode::Plan),
            Mode::Ask => Some(AgentMode::Ask),
            Mode::Agent => None,
        }
    }
}

fn bound_parser() -> impl TypedValueParser<Value = Bound> {
    PossibleValuesParser::new(Bound::ALL.map(Bound::word)).try_map(|word| {
        Bound::ALL.into_iter().find(|bound| bound.word() == word).ok_or("no such bound")
    })
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Network {
    Allowlist,
    None,
    Host,
}

impl From<Network> for NetworkMode {
    fn from(network: Network) -> Self {
        match network {
            Network::Allowlist => Self::Allowlist,
            Network::None => Self::None,
            Network::Host => Self::Host,
        }
    }
}
