//! `caretaker mcp tools`: counts the tools of an agent's MCP servers.
//!
//! The simulated agent asks the servers for their tools, inside the sandbox of a run, and does nothing else. So a
//! repository's server never runs on the host, a server whose program is not in the sandbox cannot answer, and a server
//! with a `url` is reachable only through the run's network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use admission::admit::{Admission, Conversation, RunContext, StartMode};
use admission::command_error::{CommandError, OrFail};
use admission::host::agent_discovery::SIMULATED;
use admission::host::overview;
use admission::sandbox::profiles;
use admission::sandbox::user_mcp;
use admission::words::talk::note;
use cursor_home::{McpServers, ToolBudget};
use run_journal::{KernelLock, RunDirectory};
use run_protocol::{
    AllowedHost, ControlRequest, ExitCode, HumanDuration, NetworkMode, RunRequest, StopManner,
};
use run_shim::servers_of_run;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::command_helper::CommandHelper;
use crate::commands::mcp::ServerOptions;
use crate::data_out::{print_json, print_table, print_text};
use crate::retention::removal;
use crate::running::console_options::ConsoleOptions;
use crate::running::interruption::TakenSignals;
use crate::running::launching::Launch;
use crate::running::route::Route;
use crate::running::stopping::{tell, wait_until_dead};
use crate::running::workspace_owner::become_owner;
use crate::view::words;

/// The default time limit of a count.
const USUAL_TIMEOUT: HumanDuration = HumanDuration::Limited(Duration::from_secs(60));

/// The prompt for the simulated agent.
const PROMPT: &str = "```agent\nservers\n```\n";

/// Count the tools of the MCP servers that a run would get.
///
/// Caretaker starts the servers inside a sandbox like the run's, never on the host, asks them for their tools, and
/// stops them. It asks servers with a `url` from inside too, through the run's network; that needs `curl` in the
/// sandbox. If a server does not answer, the `enabledTools` in its definition count instead. Cursor is said to use 40
/// tools and to ignore the rest, so Caretaker warns if there are more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker mcp tools --user-mcp
  caretaker mcp tools -C ~/src/app --mcp notes --mcp-from-repo browser")]
pub(crate) struct Args {
    /// The workspace of the run. Default: the current directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// As with `run --user-mcp`.
    #[arg(long)]
    user_mcp: bool,
    #[command(flatten)]
    servers: ServerOptions,
    /// The sandbox profile, as with `run`.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The network mode, as with `run`.
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::parser())]
    network: Option<NetworkMode>,
    /// Let the servers reach this host too, as with `run`. Can be given several times.
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    allow_hosts: Vec<AllowedHost>,
    /// The time limit, waiting included. Default: `60s`; with `--wait` the limit of a run.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<HumanDuration>,
    /// Wait for the run that holds the workspace, instead of failing.
    #[arg(long)]
    wait: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The simulated agent's answer about one server.
#[derive(Debug, Deserialize)]
struct Found {
    name: String,
    state: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// The servers, and the sum of their tools.
struct Counted {
    servers: Vec<CountedServer>,
    budget: ToolBudget,
}

#[derive(Debug, Serialize)]
struct CountedServer {
    name: String,
    /// `ready`, `failed`, `needs_login`, `disabled`, `needs_approval` or `unknown`.
    state: String,
    why: Option<String>,
    n_tools: Option<usize>,
    tools: Option<Vec<String>>,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    become_owner(helper, args.workspace.as_deref())?;
    let Counted { servers, budget } = count(helper, args)?;
    if args.json {
        return print_json(&json!({
            "v": 1,
            "kind": "mcp.tools",
            "servers": servers,
            // The tools of all servers that could be counted, and the number that Cursor is said to use.
            "total": budget.used,
            "limit": budget.limit,
            "is_over": budget.is_over(),
            // Servers that did not answer.
            "uncounted": budget.unknown,
        }));
    }
    let rows = servers.iter().map(|server| {
        let n_tools = server.n_tools.map_or_else(|| "?".to_owned(), |n_tools| n_tools.to_string());
        let why = server.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
        [server.name.clone(), n_tools, format!("{}{why}", server.state)]
    });
    let header = ["SERVER", "TOOLS", "STATE"];
    print_table(&header, rows)?;
    print_text(&format!("{} tools in all\n", budget.used))
}

fn count(helper: &CommandHelper, args: &Args) -> Result<Counted, CommandError> {
    let (host, config, program) = (&helper.host, helper.config()?, helper.program()?);
    let request = request(args)?;
    let conversation = Conversation::New { workspace: args.workspace.clone() };
    let way = StartMode::Direct { waits: args.wait };
    let context = RunContext { counts_tools: true, ..RunContext::new(conversation, way) };
    let mut admitted = Admission::new(host, config, program, &request, context)?.admit()?;
    let servers = servers_of_run(&host.state, &admitted.spec)?.servers;
    // The simulated agent's session is not one of the user's conversations: keep it apart.
    let session = admitted.spec.session;
    let place = host.state.tool_counts().join(session.to_string());
    admitted.spec.host_config_root = place.clone().into();
    // The agent asks the servers before it prints its first line: a silent server must not make the run fail and lose
    // the other answers.
    admitted.spec.limits.startup_ms = USUAL_TIMEOUT.milliseconds();
    let console = &ConsoleOptions { detach: true, ..ConsoleOptions::default() };
    let launch = Launch { host, config, console, program, route: &Route::Direct };
    // Take over signals before the run exists, so that a signal cannot orphan it.
    let signals = TakenSignals::block().or_fail(|| "cannot wait for signals")?;
    let run = launch.start(admitted, PROMPT.as_bytes())?;
    let socket = host.control_socket(&run);
    let is_cancelled = stop_on_signals(signals, &run, &socket);
    let answer = wait_until_dead(&run, &socket).and_then(|()| answer_of(&run));
    if let Ok(lock) = KernelLock::take_waiting(&host.state.removal_lock()) {
        removal::remove(&host.state, &run, lock).ok();
    }
    fs::remove_dir_all(host.state.session_dir(&session)).ok();
    fs::remove_dir_all(&place).ok();
    if is_cancelled.load(Ordering::Relaxed) {
        let what = "cancelled: the tools were not counted";
        return Err(CommandError::new(ExitCode::Cancelled, what));
    }
    Ok(sum(&servers, &answer?))
}

/// A run of the simulated agent, in the sandbox that the user's run would have.
fn request(args: &Args) -> Result<RunRequest, CommandError> {
    if args.profile.as_deref() == Some(profiles::OFF) {
        let what = "counting tools needs a sandbox, and the profile `off` has none";
        return Err(CommandError::new(ExitCode::Usage, what).hint("leave out --profile"));
    }
    Ok(RunRequest {
        agent: Some(SIMULATED.into()),
        profile: args.profile.clone(),
        network: args.network,
        allow_host: args.allow_hosts.clone(),
        timeout: args.timeout.or((!args.wait).then_some(USUAL_TIMEOUT)),
        no_checkpoint: true,
        ..args.servers.request(args.user_mcp)
    })
}

/// Adds up the answers of the servers, and warns if there are too many tools.
fn sum(servers: &McpServers, found: &[Found]) -> Counted {
    let known: BTreeMap<String, usize> = found
        .iter()
        .filter_map(|server| Some((server.name.clone(), server.tools.as_ref()?.len())))
        .collect();
    let budget = ToolBudget::of(servers, &known);
    if let Some(remark) = user_mcp::tool_remark(&budget) {
        note(&remark);
    }
    let counted = servers.iter().map(|(name, server)| {
        let found = found.iter().find(|found| found.name == name);
        CountedServer {
            name: name.to_owned(),
            state: found.map_or_else(|| "unknown".to_owned(), |found| found.state.clone()),
            why: found.and_then(|found| found.why.clone()),
            n_tools: known.get(name).copied().or_else(|| server.n_enabled_tools()),
            tools: found.and_then(|found| found.tools.clone()),
        }
    });
    Counted { servers: counted.collect(), budget }
}

/// Stops the run when a signal arrives, and then sets the flag.
fn stop_on_signals(signals: TakenSignals, run: &RunDirectory, socket: &Path) -> Arc<AtomicBool> {
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let (is_asked, run, socket) = (Arc::clone(&is_cancelled), run.clone(), socket.to_owned());
    thread::spawn(move || {
        while signals.wait().is_ok() {
            is_asked.store(true, Ordering::Relaxed);
            let stop = ControlRequest::Stop { manner: StopManner::Now };
            if let Err(error) = tell(&run, &socket, &stop) {
                error.report();
            }
        }
    });
    is_cancelled
}

/// The simulated agent's answer, or why there is none.
fn answer_of(run: &RunDirectory) -> Result<Vec<Found>, CommandError> {
    let journal = fs::read_to_string(run.journal_path()).unwrap_or_default();
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let result = lines.map(|line| line["agent"].clone()).find(|line| line["type"] == "result");
    let found = result.and_then(|result| serde_json::from_str(result["result"].as_str()?).ok());
    match found {
        Some(found) => Ok(found),
        None => {
            let why = words::state(&overview(run)?.state);
            let what = "cannot ask the MCP servers for their tools";
            Err(CommandError::new(ExitCode::Failed, what).because(why))
        }
    }
}
