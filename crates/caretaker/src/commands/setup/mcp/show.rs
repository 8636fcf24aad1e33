//! `caretaker mcp show`: prints the generated `mcp.json`.

use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::sandbox::profiles;
use admission::words::talk::note;
use cursor_home::McpServers;
use run_protocol::{ExitCode, RunSpec};
use run_shim::{ShownServers, servers_of_run};
use serde_json::{Map, Value, json};

use crate::command_helper::CommandHelper;
use crate::commands::mcp::ServerOptions;
use crate::commands::sandbox::hypothetical_spec;
use crate::data_out::{print_json, print_text};
use crate::running::workspace_owner::become_owner;

/// Print the mcp.json of a run's agent, or the one that a new run would get.
///
/// Secrets and the values of variables are replaced. For a run that has ended, this is the file for the session's next
/// run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker mcp show nightly                   the file of this run's agent
  caretaker mcp show -C ~/src/app --user-mcp   the file that a new run would get")]
pub(crate) struct Args {
    /// The run: its id, a unique prefix or suffix of it, its name, or `-` for the latest.
    #[arg(conflicts_with = "workspace")]
    run: Option<String>,
    /// The workspace of the new run. Default: the current directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// As with `run --user-mcp`.
    #[arg(long, conflicts_with = "run")]
    user_mcp: bool,
    #[command(flatten)]
    servers: ServerOptions,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    if args.run.is_some() && !args.servers.is_empty() {
        let what =
            "--mcp and --mcp-from-repo cannot be used with a run: it already has its servers";
        return Err(CommandError::new(ExitCode::Usage, what));
    }
    let spec = match &args.run {
        Some(run) => spec_of(host, run)?,
        None => {
            become_owner(helper, args.workspace.as_deref())?;
            let request = args.servers.request(args.user_mcp);
            hypothetical_spec(helper, args.workspace.clone(), &request)?
        }
    };
    let shown = servers_of_run(&host.state, &spec)?;
    let ShownServers { servers, off, is_live } = shown;
    let file = without_secrets(&servers);
    if args.json {
        let named = args.run.as_ref();
        return print_json(&json!({
            "v": 1,
            "kind": "mcp.servers",
            "run": named.map(|_| spec.run),
            "session": named.map(|_| spec.session),
            "workspace": spec.workspace,
            // True if an agent has the file now.
            "live": is_live,
            "off": off,
            "mcpServers": file,
        }));
    }
    if args.run.is_some() && !is_live {
        note("the run has ended; the session's next run starts with this file");
    }
    if !off.is_empty() {
        note(&format!("switched off for this session: {}", off.join(", ")));
    }
    let text = serde_json::to_string_pretty(&json!({ "mcpServers": file }))
        .map_err(|error| CommandError::writing(error.into()))?;
    print_text(&format!("{text}\n"))
}

/// The spec of a run with a sandbox: only such a run has a generated `mcp.json`.
pub(super) fn spec_of(host: &Host, run: &str) -> Result<RunSpec, CommandError> {
    let run = host.find_run(run)?;
    let spec = run.spec().or_fail(|| format!("cannot find the servers of run {}", run.run_id()))?;
    if spec.profile == profiles::OFF {
        let what = format!("run {} has no sandbox, so its agent uses your own mcp.json", spec.run);
        return Err(CommandError::new(ExitCode::Usage, what));
    }
    Ok(spec)
}

fn without_secrets(servers: &McpServers) -> Value {
    let servers = servers.iter().map(|(name, server)| (name.to_owned(), server.shown()));
    Value::Object(servers.collect::<Map<String, Value>>())
}
