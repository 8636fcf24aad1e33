//! `caretaker group kill`.

use admission::budgets::group_record::GroupRecord;
use admission::command_error::{CommandError, OrFail};
use admission::words::talk::say;
use ground::now_ms;
use run_protocol::{ControlRequest, ExitCode, StopManner};

use super::{runs_of, unfinished};
use crate::batch::summary::worst;
use crate::command_helper::CommandHelper;
use crate::running::run_report;
use crate::running::stopping::{ends_of, tell_all};
use crate::view::words;

/// Stop all runs of a group, those that wait too, and return only when nothing of them is left.
///
/// A batch that is still being started starts no more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// Kill the sandboxes at once.
    #[arg(long)]
    now: bool,
    /// Print one JSON object per run that was stopped: how it stands now.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let group = &args.group;
    runs_of(host, group)?;
    // First this: whoever starts more of it has to hear of it before we look what there is.
    let stopped =
        GroupRecord::update(&host.state, group, |record| record.stopped_ms = Some(now_ms()));
    stopped.or_fail(|| format!("group `{group}` could not be marked as stopped"))?;
    let manner = if args.now { StopManner::Now } else { StopManner::Ladder };
    let stop = ControlRequest::Stop { manner };
    let mut codes = Vec::new();
    // One may have been on its way when the others were looked for.
    loop {
        let all = runs_of(host, group)?;
        // Stop the waiting runs first. Else one of them starts when a live run ends.
        let (mut runs, live): (Vec<_>, Vec<_>) =
            unfinished(host, &all).partition(|run| run.is_queued().unwrap_or(false));
        let mut told = tell_all(host, &runs, &stop);
        told.extend(tell_all(host, &live, &stop));
        runs.extend(live);
        if runs.is_empty() {
            break;
        }
        let n_codes = codes.len();
        for (run, ended) in ends_of(host, &runs, told) {
            match ended {
                Ok(overview) if args.json => run_report::print(run, &overview)?,
                Ok(overview) => {
                    say(&format!("run {}: {}", run.run_id(), words::state(&overview.state)));
                }
                Err(error) => codes.push(error.report()),
            }
        }
        // What cannot be stopped now cannot be stopped by asking again.
        if codes.len() > n_codes {
            break;
        }
    }
    Ok(worst(codes))
}
