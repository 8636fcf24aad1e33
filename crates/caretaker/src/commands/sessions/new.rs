//! `caretaker sessions new`: an id for a session before its first prompt.

use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::sandbox::workspace;
use run_protocol::ExitCode;
use run_shim::mint_session;
use serde::Serialize;
use uuid::Uuid;

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_text};
use crate::running::workspace_owner::become_owner;

/// Print the id of a new session, which `run --session` and `resume` begin.
///
/// No agent is started. The id is good for this workspace alone, as often as it takes until an agent has begun the
/// session; from then on it is continued like any other. `caretaker gc --older-than` forgets ids that nobody used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  id=$(caretaker sessions new -C ~/src/app)
  caretaker run -C ~/src/app --session $id \"fix the tests\"")]
pub(crate) struct Args {
    /// The directory that the session is to work in. Default: where you are.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The shape that `--json` prints.
#[derive(Debug, Serialize)]
struct Minted<'a> {
    v: u32,
    kind: &'static str,
    session: Uuid,
    workspace: &'a str,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    become_owner(helper, args.workspace.as_deref())?;
    let workspace = workspace::check(host, args.workspace.as_deref())?;
    let workspace = workspace.as_utf8()?;
    let minted =
        mint_session(&host.state, workspace).or_fail(|| "the new session cannot be remembered")?;
    let session = minted.session;
    if args.json {
        print_json(&Minted { v: 1, kind: "session.minted", session, workspace })?;
    } else {
        print_text(&format!("{session}\n"))?;
    }
    Ok(ExitCode::Success)
}
