//! `caretaker group show`.

use admission::budgets;
use admission::budgets::budget::{Overspent, Spending, judge};
use admission::budgets::group_record::GroupRecord;
use admission::budgets::tally::Tally;
use admission::command_error::CommandError;
use admission::words::talk::say;
use admission::words::units;
use run_journal::RunOverview;
use run_protocol::{Budget, ExitCode};
use serde::Serialize;

use super::budget::lines;
use super::known_runs_of;
use crate::batch::summary::print_runs;
use crate::command_helper::CommandHelper;
use crate::data_out::print_json;

/// Show the runs of a group and their states.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    v: u32,
    group: &'a str,
    #[serde(flatten)]
    tally: Tally,
    /// The budget of all runs together.
    budget: Budget,
    spent: Spending,
    /// The exhausted part of the budget, if there is one; then no new runs start.
    overspent: Option<Overspent>,
    /// Removed runs. They still count, and `spent` includes their usage.
    n_gone: u64,
    runs: &'a [RunOverview],
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let runs = known_runs_of(host, &args.group)?;
    let config = helper.config()?;
    let budget = budgets::of_group(host, config, &args.group);
    let spent = budgets::spending_of_group(host, &args.group, &runs);
    let overspent = judge(&budget, &spent);
    let record = GroupRecord::read(&host.state, &args.group);
    let tally = record.tally(&args.group, &runs);
    let n_gone = record.gone.map_or(0, |gone| gone.n_runs);
    if args.json {
        let (group, runs) = (&args.group, &runs);
        return print_json(&Shown { v: 1, group, tally, budget, spent, overspent, n_gone, runs });
    }
    say(&describe(&args.group, tally));
    if n_gone > 0 {
        let gone = units::counted(n_gone, "run", "runs");
        say(&format!("{gone} deleted; usage still counted"));
    }
    say(lines(&budgets::budget_of_group(&args.group), &budget, &spent, overspent.as_ref())
        .trim_end());
    let rows: Vec<&RunOverview> = runs.iter().collect();
    print_runs(&rows)
}

/// `group nightly: 3 of 5 succeeded, 1 failed, 1 running`.
pub(super) fn describe(group: &str, tally: Tally) -> String {
    let parts = [
        (tally.failed, "failed"),
        (tally.unknown, "unknown"),
        (tally.running, "running"),
        (tally.queued, "queued"),
    ];
    let mut text = format!("group {group}: {} of {} succeeded", tally.succeeded, tally.total());
    for (number, word) in parts.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!(", {number} {word}"));
    }
    text
}
