//! `caretaker kill`: stops runs, and returns when they are dead.

use admission::command_error::CommandError;
use admission::words::talk::say;
use run_protocol::{ControlRequest, ExitCode, StopManner};

use crate::command_helper::CommandHelper;
use crate::running::run_report;
use crate::running::stopping::end_all;
use crate::view::words;

/// Stop runs, and return only when nothing of them is left.
///
/// The agent gets SIGINT, then SIGTERM, then its whole sandbox is killed; how fast is in the configuration. Asking a
/// second time makes it faster. RUN is an id, a beginning of one that is unique, a name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Kill the sandbox at once.
    #[arg(long)]
    now: bool,
    /// Print one JSON object per run: how it stands now.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let manner = if args.now { StopManner::Now } else { StopManner::Ladder };
    let stop = ControlRequest::Stop { manner };
    let runs = host.find_runs(&args.runs)?;
    let mut code = ExitCode::Success;
    for (run, ended) in end_all(host, &runs, &stop) {
        match ended {
            Ok(overview) if args.json => run_report::print(run, &overview)?,
            Ok(overview) => {
                say(&format!("run {}: {}", run.run_id(), words::state(&overview.state)));
            }
            Err(error) => code = error.report(),
        }
    }
    Ok(code)
}
