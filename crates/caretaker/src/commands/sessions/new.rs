//! `caretaker sessions new`: prints an id for a session before its first prompt.

use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::sandbox::workspace;
use run_protocol::ExitCode;
use run_shim::mint_session;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_text};
use crate::running::workspace_owner::become_owner;

/// Print the id of a new session, for `run --session` and `resume`.
///
/// This starts no agent. The id works only in this workspace. The first run that succeeds begins the session; later
/// runs continue it. `caretaker gc --older-than` deletes unused ids.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  id=$(caretaker sessions new -C ~/src/app)
  caretaker run -C ~/src/app --session $id \"fix the tests\"")]
pub(crate) struct Args {
    /// The workspace of the session. Default: the current directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    become_owner(helper, args.workspace.as_deref())?;
    let workspace = workspace::check(host, args.workspace.as_deref())?;
    let workspace = workspace.as_utf8()?;
    let minted =
        mint_session(&host.state, workspace).or_fail(|| "cannot save the new session id")?;
    let session = minted.session;
    if args.json {
        print_json(&json!({
            "v": 1, "kind": "session.minted", "session": session, "workspace": workspace,
        }))
    } else {
        print_text(&format!("{session}\n"))
    }
}
