//! `caretaker group wait`.

use std::time::{Duration, Instant};

use admission::budgets;
use admission::budgets::group_record::GroupRecord;
use admission::command_error::CommandError;
use admission::host::Host;
use admission::words::talk::say;
use run_journal::RunOverview;
use run_protocol::{ExitCode, HumanDuration};

use super::show::describe;
use super::{known_runs_of, unfinished};
use crate::batch::result::BatchResult;
use crate::batch::runs_watch::RunsWatch;
use crate::batch::summary::{exit_code, print_runs, worst};
use crate::command_helper::CommandHelper;
use crate::data_out::print_json;
use crate::running::progress::Progress;

/// How long to wait for news before checking again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Wait until all runs of a group have ended, then show their outcomes.
///
/// The exit code is the worst of all runs: 0 only if all succeeded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// Stop waiting after this time, with exit code 75; the runs continue. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION", default_value = "none")]
    timeout: HumanDuration,
    /// Print one JSON object per run, oldest first: its outcome and the agent's answer.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let deadline = args.timeout.limit().map(|limit| Instant::now() + limit);
    let runs = wait(host, &args.group, deadline)?;
    let is_over = runs.iter().all(|run| !run.state.is_unfinished());
    if args.json {
        for run in &runs {
            let directory = run_journal::RunDirectory::open(&host.state, run.run).ok();
            print_json(&BatchResult::of(run, directory.as_ref()))?;
        }
    } else {
        let rows: Vec<&RunOverview> = runs.iter().collect();
        print_runs(&rows)?;
    }
    let record = GroupRecord::read(&host.state, &args.group);
    say(&describe(&args.group, record.tally(&args.group, &runs)));
    if let Ok(config) = helper.config() {
        budgets::note_if_spent(host, config, Some(&args.group));
    }
    // The record says that a removed run failed, but not how.
    let has_gone_failed = record.gone.is_some_and(|gone| gone.n_failed > 0);
    let gone = has_gone_failed.then_some(ExitCode::Failed);
    Ok(if is_over {
        worst(gone.into_iter().chain([exit_code(&runs)]))
    } else {
        ExitCode::StillRunning
    })
}

/// Waits until all runs have ended or the time is up, and returns them. Runs that join the group in the meantime count
/// too.
fn wait(
    host: &Host,
    group: &str,
    deadline: Option<Instant>,
) -> Result<Vec<RunOverview>, CommandError> {
    loop {
        let runs = known_runs_of(host, group)?;
        let mut watch = RunsWatch::new();
        unfinished(host, &runs).for_each(|run| watch.add(run));
        let n_over = runs.iter().filter(|run| !run.state.is_unfinished()).count();
        if watch.is_empty() {
            return Ok(runs);
        }
        let bar = Progress::of(runs.len(), "waiting");
        let mut n_done = n_over;
        bar.show(n_done, runs.len());
        while !watch.is_empty() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return known_runs_of(host, group);
            }
            n_done += watch.wait(left.unwrap_or(PATIENCE)).over.len();
            bar.show(n_done, runs.len());
        }
    }
}
