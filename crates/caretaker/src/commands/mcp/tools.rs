//! `caretaker mcp tools`: how many tools an agent's MCP servers have together.
//!
//! The servers are asked from where the agent would ask them and nowhere else: inside the sandbox of a run, whose agent is
//! the simulated one. It does nothing but ask them for their tools. So a server of the repository never runs on the host, a
//! server whose program the sandbox does not show is found to be missing here too, and a server with a `url` is reached by
//! the network of the run or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use admission::admit::{Admission, Conversation, Errand, Way};
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
use serde_json::Value;

use crate::command_helper::CommandHelper;
use crate::commands::mcp::ServerOptions;
use crate::data_out::{print_json, print_text};
use crate::retention::removal;
use crate::running::console_options::ConsoleOptions;
use crate::running::interruption::TakenSignals;
use crate::running::launching::Launch;
use crate::running::route::Route;
use crate::running::stopping::{tell, wait_until_dead};
use crate::running::workspace_owner::become_owner;
use crate::view::table::table;
use crate::view::width::Width;
use crate::view::words;

/// How long a count may take unless the user says otherwise.
const USUAL_TIMEOUT: HumanDuration = HumanDuration::Limited(Duration::from_secs(60));

/// What the simulated agent is to do.
const PROMPT: &str = "```agent\nservers\n```\n";

/// Count the tools of the MCP servers that a run would get.
///
/// The servers are started inside a sandbox like the run's, never on the host, asked for their tools, and stopped.
/// Servers that have a `url` are asked from there too, with the network that the run would have; that needs `curl` in
/// the sandbox. If a server gives no answer, `enabledTools` of its definition counts, where it is there. Cursor is said to
/// use 40 tools and to ignore the rest, so caretaker warns if there are more.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker mcp tools --user-mcp
  caretaker mcp tools -C ~/src/app --mcp notes --mcp-from-repo browser")]
pub(crate) struct Args {
    /// The directory that a run would work in. Default: where you are.
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
    /// What of the network is inside, as with `run`.
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::parser())]
    network: Option<NetworkMode>,
    /// Let the servers reach this host too, as with `run`; may be given several times.
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    allow_hosts: Vec<AllowedHost>,
    /// How long all of it may take, waiting included. Default: `60s`; with `--wait` the limit of a run.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<HumanDuration>,
    /// Wait for the run that holds the workspace, instead of failing.
    #[arg(long)]
    wait: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What the simulated agent says of a server.
#[derive(Debug, Deserialize)]
struct Found {
    name: String,
    state: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// The shape that `--json` prints.
#[derive(Debug, Serialize)]
struct Counted {
    v: u32,
    kind: &'static str,
    servers: Vec<CountedServer>,
    /// The tools of all servers that could be counted.
    total: usize,
    /// How many Cursor is said to use.
    limit: usize,
    is_over: bool,
    /// Servers whose tools nobody told us.
    uncounted: Vec<String>,
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
    let counted = count(helper, args)?;
    if args.json {
        print_json(&counted)?;
        return Ok(ExitCode::Success);
    }
    let rows = counted.servers.iter().map(|server| {
        let n_tools = server.n_tools.map_or_else(|| "?".to_owned(), |n_tools| n_tools.to_string());
        let why = server.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
        [server.name.clone(), n_tools, format!("{}{why}", server.state)]
    });
    let header = ["SERVER", "TOOLS", "STATE"];
    print_text(&format!("{}\n", table(&header, rows, Width::of_stdout())))?;
    print_text(&format!("{} tools in all\n", counted.total))?;
    Ok(ExitCode::Success)
}

fn count(helper: &CommandHelper, args: &Args) -> Result<Counted, CommandError> {
    let (host, config, program) = (&helper.host, helper.config()?, helper.program()?);
    let request = request(args)?;
    let conversation = Conversation::New { workspace: args.workspace.clone() };
    let way = Way::Direct { waits: args.wait };
    let errand = Errand { counts_tools: true, ..Errand::new(conversation, way) };
    let mut admitted = Admission::new(host, config, program, &request, errand)?.admit()?;
    let servers = servers_of_run(&host.state, &admitted.spec)?.servers;
    // What the simulated agent keeps of it is no conversation of the user's.
    let session = admitted.spec.session;
    let place = host.state.tool_counts().join(session.to_string());
    admitted.spec.host_config_root = place.clone().into();
    // The servers are asked before the agent's first line: one that is silent must not cost the answers of the others.
    admitted.spec.limits.startup_ms = USUAL_TIMEOUT.milliseconds();
    let console = &ConsoleOptions { detach: true, ..ConsoleOptions::default() };
    let launch = Launch { host, config, console, program, route: &Route::Direct };
    // Before there is a run that a signal could leave behind.
    let signals = TakenSignals::block().or_fail(|| "signals cannot be awaited")?;
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
        let what = "the tools were not counted, because you stopped it";
        return Err(CommandError::new(ExitCode::Cancelled, what));
    }
    Ok(sum(&servers, &answer?))
}

/// What is asked of the run: a sandbox like that of a run of the user's, and the simulated agent in it.
fn request(args: &Args) -> Result<RunRequest, CommandError> {
    if args.profile.as_deref() == Some(profiles::OFF) {
        let what = "the MCP servers are asked for their tools in a sandbox, and the profile `off` has none";
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

/// Adds up what the servers answered, and warns where it is too much.
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
    Counted {
        v: 1,
        kind: "mcp.tools",
        servers: counted.collect(),
        total: budget.used,
        limit: budget.limit,
        is_over: budget.is_over(),
        uncounted: budget.unknown,
    }
}

/// Stops the run when a signal comes. Says whether one did.
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

/// What the simulated agent answered, or why it did not.
fn answer_of(run: &RunDirectory) -> Result<Vec<Found>, CommandError> {
    let journal = fs::read_to_string(run.journal_path()).unwrap_or_default();
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let result = lines.map(|line| line["agent"].clone()).find(|line| line["type"] == "result");
    let found = result.and_then(|result| serde_json::from_str(result["result"].as_str()?).ok());
    match found {
        Some(found) => Ok(found),
        None => {
            let why = words::state(&overview(run)?.state);
            let what = "the MCP servers could not be asked for their tools";
            Err(CommandError::new(ExitCode::Failed, what).because(why))
        }
    }
}
