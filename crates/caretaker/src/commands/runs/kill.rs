//! `caretaker kill`: stops runs, and returns when they are dead.

use admission::command_error::CommandError;
use run_protocol::{ControlRequest, ExitCode, StopManner};

use crate::command_helper::CommandHelper;
use crate::running::stopping::{end_all, report_ends};

/// Stop runs, and return when all their processes are dead.
///
/// The agent gets SIGINT, then SIGTERM, then Caretaker kills the whole sandbox; `[stop]` in the configuration sets the
/// delays. A second `kill` skips the rest of a delay.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Kill the sandbox immediately.
    #[arg(long)]
    now: bool,
    /// Print one JSON object per run: its state.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let manner = if args.now { StopManner::Now } else { StopManner::Ladder };
    let stop = ControlRequest::Stop { manner };
    let runs = host.find_runs(&args.runs)?;
    let codes = report_ends(end_all(host, &runs, &stop), args.json)?;
    Ok(codes.last().copied().unwrap_or(ExitCode::Success))
}
