//! `caretaker mcp show`: the generated `mcp.json`.

use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::sandbox::profiles;
use admission::words::talk::note;
use cursor_home::McpServers;
use run_protocol::{ExitCode, RunId, RunSpec};
use run_shim::{ShownServers, servers_of_run};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::commands::mcp::ServerOptions;
use crate::commands::sandbox::hypothetical_spec;
use crate::data_out::{print_json, print_text};
use crate::running::workspace_owner::become_owner;

/// Print the mcp.json that a run's agent has, or that a run would get.
///
/// Secrets are replaced, and so is the value of every variable. For a run that is over, this is what the session's next
/// run starts with.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker mcp show nightly                   the file that the agent of this run reads
  caretaker mcp show -C ~/src/app --user-mcp   the file that such a run would get")]
pub(crate) struct Args {
    /// The run: an id, a beginning of one that is unique, a name, or `-` for the latest.
    #[arg(conflicts_with = "workspace")]
    run: Option<String>,
    /// The directory that a run would work in. Default: where you are.
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

/// The shape that `--json` prints.
#[derive(Debug, Serialize)]
struct Shown {
    v: u32,
    kind: &'static str,
    /// The run whose file it is; none where no run was named.
    run: Option<RunId>,
    session: Option<Uuid>,
    workspace: String,
    /// Whether an agent has the file now.
    live: bool,
    /// Servers that are switched off for the session.
    off: Vec<String>,
    #[serde(rename = "mcpServers")]
    servers: Value,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    if args.run.is_some() && !args.servers.is_empty() {
        let what = "a run that exists has its servers; --mcp and --mcp-from-repo are for one that would be started";
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
        let (run, session) = (named.map(|_| spec.run), named.map(|_| spec.session));
        print_json(&Shown {
            v: 1,
            kind: "mcp.servers",
            run,
            session,
            workspace: spec.workspace,
            live: is_live,
            off,
            servers: file,
        })?;
        return Ok(ExitCode::Success);
    }
    if args.run.is_some() && !is_live {
        note("no agent has this file now; the session's next run starts with it");
    }
    if !off.is_empty() {
        note(&format!("switched off for this session: {}", off.join(", ")));
    }
    let text = serde_json::to_string_pretty(&json!({ "mcpServers": file }))
        .map_err(|error| CommandError::writing(error.into()))?;
    print_text(&format!("{text}\n"))?;
    Ok(ExitCode::Success)
}

/// The spec of a run that has a sandbox, and so a generated `mcp.json`.
pub(super) fn spec_of(host: &Host, run: &str) -> Result<RunSpec, CommandError> {
    let run = host.find_run(run)?;
    let spec =
        run.spec().or_fail(|| format!("the servers of run {} are not known", run.run_id()))?;
    if spec.profile == profiles::OFF {
        let what = format!("run {} has no sandbox, so its agent goes by your own files", spec.run);
        return Err(CommandError::new(ExitCode::Usage, what));
    }
    Ok(spec)
}

fn without_secrets(servers: &McpServers) -> Value {
    let servers = servers.iter().map(|(name, server)| (name.to_owned(), server.shown()));
    Value::Object(servers.collect::<Map<String, Value>>())
}
