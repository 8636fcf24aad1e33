//! `caretaker mcp enable` and `disable`: switch servers on and off for a session.

use std::path::Path;
use std::time::{Duration, Instant};

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::sandbox::user_mcp;
use admission::words::talk::say;
use cursor_home::WorkspacePath;
use run_journal::{RunDirectory, WriterPresence};
use run_protocol::{ControlRequest, ExitCode, RunId, RunSpec, ServerChange};
use run_shim::control_client::{self, ControlError};
use run_shim::{change_servers_of_session, read_session_record, servers_of_run, session_holder};
use serde_json::json;

use super::show::spec_of;
use crate::command_helper::CommandHelper;
use crate::commands::sessions::chat_place::take_lease;
use crate::data_out::print_json;
use crate::running::stopping::writer;
use crate::view::words;

/// How long a shim that holds its lock may take to open its socket.
const COMING_UP: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A run of the session: its id, a unique prefix or suffix of it, its name, or `-` for the latest.
    run: String,
    /// The servers, with the names from `caretaker mcp show`.
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn enable(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let spec = spec_of(host, &args.run)?;
    let roots = host.environment.cursor_roots()?;
    let workspace = WorkspacePath::new(Path::new(&spec.workspace)).ok();
    let user = workspace.and_then(|workspace| user_mcp::find(&workspace, &roots));
    let enable = args.servers.clone();
    let change = ServerChange { enable, user, ..ServerChange::default() };
    make(host, &spec, &change, args.json)
}

pub(crate) fn disable(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let spec = spec_of(host, &args.run)?;
    let disable = args.servers.clone();
    make(host, &spec, &ServerChange { disable, ..ServerChange::default() }, args.json)
}

fn make(
    host: &Host,
    spec: &RunSpec,
    change: &ServerChange,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let run = told_run(host, spec, change)?;
    let servers = match run {
        Some(run) => {
            let spec = spec_of(host, &run.to_string())?;
            servers_of_run(&host.state, &spec).ok().map(|shown| shown.servers.names())
        }
        None => change_record(host, spec, change)?,
    };
    let ServerChange { enable, disable, .. } = change;
    if as_json {
        return print_json(&json!({
            "v": 1,
            "kind": "mcp.changed",
            "session": spec.session,
            // The run whose agent has the new file now.
            "run": run,
            "enabled": enable,
            "disabled": disable,
            // All servers that the session has now; null if a file cannot be read.
            "servers": servers,
        }));
    }
    let now = servers.map_or(String::new(), |servers| format!("; now {}", servers.join(", ")));
    let changes = words::server_changes(enable, disable);
    say(&format!("session {}: MCP servers {changes}{now}", spec.session));
    if run.is_some() {
        say(
            "changed the agent's mcp.json; the running agent may not read it again, but the session's next run starts with it",
        );
    }
    Ok(ExitCode::Success)
}

/// Asks the shim of the session's run to make the change. `None`: no run holds the session.
fn told_run(
    host: &Host,
    spec: &RunSpec,
    change: &ServerChange,
) -> Result<Option<RunId>, CommandError> {
    let deadline = Instant::now() + COMING_UP;
    let request = ControlRequest::RegenerateMcp(change.clone());
    loop {
        // The session's current holder may not be the run that the user named.
        let holder = session_holder(&host.state, &spec.session).ok().flatten();
        let named = holder.map_or(spec.run, |holder| holder.run);
        let run = host.find_run(&named.to_string())?;
        if run.is_queued().unwrap_or(false) {
            return Err(not_begun(&run));
        }
        if matches!(writer(&run)?, WriterPresence::Gone(_)) {
            return Ok(None);
        }
        match control_client::order(&host.control_socket(&run), named, &request) {
            Ok(()) => return Ok(Some(named)),
            Err(ControlError::Refused(reason)) => {
                let what = format!("run {named} cannot change its MCP servers");
                return Err(CommandError::new(ExitCode::Conflict, what).because(reason));
            }
            // The shim is starting or has just ended: check its lock.
            Err(ControlError::Connect(_) | ControlError::Conversation(_))
                if Instant::now() < deadline =>
            {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(error) => {
                let what = format!("the supervisor of run {named} does not answer");
                return Err(CommandError::new(ExitCode::SupervisorFailed, what).because(error));
            }
        }
    }
}

fn not_begun(run: &RunDirectory) -> CommandError {
    let what = format!("run {} is queued, so its agent has no mcp.json yet", run.run_id());
    CommandError::new(ExitCode::Conflict, what).hint("try again when it has started")
}

/// Records the change for the session's next run.
fn change_record(
    host: &Host,
    spec: &RunSpec,
    change: &ServerChange,
) -> Result<Option<Vec<String>>, CommandError> {
    let session = spec.session;
    if read_session_record(&host.state, &session).is_none() {
        let what = format!("no record of session {session}");
        return Err(CommandError::new(ExitCode::NotFound, what));
    }
    let lease = take_lease(host, session)?;
    // Read again under the lease: another run may have used the session in the meantime.
    let last = read_session_record(&host.state, &session)
        .and_then(|record| spec_of(host, &record.run.to_string()).ok());
    let changed = change_servers_of_session(&host.state, last.as_ref().unwrap_or(spec), change);
    drop(lease);
    changed.or_fail_as(ExitCode::Usage, || {
        format!("cannot change the MCP servers of session {session}")
    })
}
