//! `caretaker wait`: returns when runs have ended, with their outcome as the exit code.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use admission::budgets;
use admission::command_error::{CommandError, OrFail};
use admission::host::overview;
use admission::words::talk::note;
use run_journal::{Follower, RunDirectory, Woken};
use run_protocol::{ExitCode, HumanDuration, NoResult, RunOutcome};

use crate::command_helper::CommandHelper;
use crate::running::run_report;

/// Wait until runs have ended.
///
/// The exit code is that of the first run, in the order given, that did not succeed.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Stop waiting after this time, with exit code 75; the runs continue. `0` and `none` mean no limit.
    #[arg(long, value_name = "DURATION", default_value = "none")]
    timeout: HumanDuration,
    /// Print one JSON object per run, in the order given: its state at the end of the wait, and the agent's answer.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let deadline = args.timeout.limit().map(|limit| Instant::now() + limit);
    let mut code = ExitCode::Success;
    let mut groups = BTreeSet::new();
    for run in host.find_runs(&args.runs)? {
        let follower = Follower::new(&run, &host.control_socket(&run));
        let outcome = outcome_of(&run, follower, deadline)?;
        if args.json {
            run_report::print(&run, &overview(&run)?)?;
        }
        let Some(outcome) = outcome else {
            note(&format!("run {} is still running", run.run_id()));
            return Ok(ExitCode::StillRunning);
        };
        if code == ExitCode::Success {
            code = outcome.exit_code();
        }
        groups.extend(run.spec().ok().map(|spec| spec.group));
    }
    if let Ok(config) = helper.config() {
        groups.iter().for_each(|group| budgets::note_if_spent(host, config, group.as_deref()));
    }
    Ok(code)
}

/// Waits for the end of the run; `None` if the deadline came first.
fn outcome_of(
    run: &RunDirectory,
    mut follower: Follower,
    deadline: Option<Instant>,
) -> Result<Option<RunOutcome>, CommandError> {
    // Check first, because the run may have already ended. Then check again only when the follower wakes.
    if let Some(outcome) = overview(run)?.state.outcome() {
        return Ok(Some(outcome));
    }
    loop {
        let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let woken = match remaining {
            Some(Duration::ZERO) => Woken::TimedOut,
            _ => follower
                .wait(remaining)
                .or_fail(|| format!("cannot wait for run {}", run.run_id()))?,
        };
        match woken {
            Woken::Grown => {}
            Woken::TimedOut => return Ok(overview(run)?.state.outcome()),
            Woken::WriterGone => {
                let lost = RunOutcome::Unknown { why: NoResult::Lost };
                return Ok(Some(overview(run)?.state.outcome().unwrap_or(lost)));
            }
        }
    }
}
