//! `caretaker pin` and `caretaker unpin`.

use admission::command_error::{CommandError, OrFail};
use admission::words::talk::say;
use run_protocol::ExitCode;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::data_out::print_json;
use crate::retention::pins;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Print one JSON object per run.
    #[arg(long)]
    json: bool,
}

pub(crate) fn pin(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    change(helper, args, true)
}

pub(crate) fn unpin(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    change(helper, args, false)
}

fn change(helper: &CommandHelper, args: &Args, is_pinned: bool) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    for run in host.find_runs(&args.runs)? {
        let run = run.run_id();
        let (done, word) = match is_pinned {
            true => (pins::pin(&host.state, run), "pinned"),
            false => (pins::unpin(&host.state, run).map(|_| true), "not pinned"),
        };
        let is_there = done.or_fail(|| format!("cannot change the pin of run {run}"))?;
        if !is_there {
            let what = format!("run {run} has just been removed");
            return Err(CommandError::new(ExitCode::NotFound, what));
        }
        if args.json {
            print_json(&json!({ "v": 1, "run": run, "is_pinned": is_pinned }))?;
        } else {
            say(&format!("run {run}: {word}"));
        }
    }
    Ok(ExitCode::Success)
}
