//! `caretaker pin` and `caretaker unpin`.

use admission::command_error::{CommandError, OrFail};
use admission::words::talk::say;
use run_protocol::{ExitCode, RunId};
use serde::Serialize;

use crate::command_helper::CommandHelper;
use crate::data_out::print_json;
use crate::retention::pins;

/// Keep runs: `caretaker gc` never takes a pinned one.
///
/// RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct PinArgs {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Print one JSON object per run.
    #[arg(long)]
    json: bool,
}

/// Let runs go that were pinned, when `caretaker gc` says so.
#[derive(Debug, clap::Args)]
pub(crate) struct UnpinArgs {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Print one JSON object per run.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    v: u32,
    run: RunId,
    is_pinned: bool,
}

pub(crate) fn pin(helper: &CommandHelper, args: &PinArgs) -> Result<ExitCode, CommandError> {
    change(helper, &args.runs, args.json, true)
}

pub(crate) fn unpin(helper: &CommandHelper, args: &UnpinArgs) -> Result<ExitCode, CommandError> {
    change(helper, &args.runs, args.json, false)
}

fn change(
    helper: &CommandHelper,
    texts: &[String],
    is_json: bool,
    is_pinned: bool,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    for run in host.find_runs(texts)? {
        let run = run.run_id();
        let (done, word) = match is_pinned {
            true => (pins::pin(&host.state, run), "pinned"),
            false => (pins::unpin(&host.state, run).map(|_| true), "not pinned"),
        };
        let is_there = done.or_fail(|| format!("run {run} could not be {word}"))?;
        if !is_there {
            let what = format!("run {run} was removed and cannot be pinned");
            return Err(CommandError::new(ExitCode::NotFound, what));
        }
        match is_json {
            true => print_json(&Report { v: 1, run, is_pinned })?,
            false => say(&format!("run {run}: {word}")),
        }
    }
    Ok(ExitCode::Success)
}
