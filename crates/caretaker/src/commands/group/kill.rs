//! `caretaker group kill`.

use admission::budgets::group_record::GroupRecord;
use admission::command_error::{CommandError, OrFail};
use ground::now_ms;
use run_protocol::{ControlRequest, ExitCode, StopManner};

use super::{runs_of, unfinished};
use crate::batch::summary::worst;
use crate::command_helper::CommandHelper;
use crate::running::stopping::{ends_of, report_ends, tell_all};

/// Stop all runs of a group, including queued ones, and return when all their processes are dead.
///
/// A batch that is still starting runs stops doing so.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// Kill the sandboxes immediately.
    #[arg(long)]
    now: bool,
    /// Print one JSON object per stopped run: its state.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let group = &args.group;
    runs_of(host, group)?;
    // Mark the group before listing its runs, so that a running batch sees the mark and starts no more.
    let stopped =
        GroupRecord::update(&host.state, group, |record| record.stopped_ms = Some(now_ms()));
    stopped.or_fail(|| format!("cannot mark group `{group}` as stopped"))?;
    let manner = if args.now { StopManner::Now } else { StopManner::Ladder };
    let stop = ControlRequest::Stop { manner };
    // Another run may start while this command lists the group, so list again until no run is left.
    loop {
        let all = runs_of(host, group)?;
        // Stop the waiting runs first. Otherwise one of them starts when a live run ends.
        let (mut runs, live): (Vec<_>, Vec<_>) =
            unfinished(host, &all).partition(|run| run.is_queued().unwrap_or(false));
        let mut told = tell_all(host, &runs, &stop);
        told.extend(tell_all(host, &live, &stop));
        runs.extend(live);
        if runs.is_empty() {
            break;
        }
        let failed = report_ends(ends_of(host, &runs, told), args.json)?;
        // If a run cannot be stopped now, a second request would not help.
        if !failed.is_empty() {
            return Ok(worst(failed));
        }
    }
    Ok(ExitCode::Success)
}
