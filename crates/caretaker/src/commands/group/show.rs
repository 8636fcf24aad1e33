//! `caretaker group show`.

use caretaker_daemon::{Budget, Spending, judge};
use run_journal::RunOverview;
use run_protocol::ExitCode;
use serde::Serialize;

use super::budget::lines;
use super::runs_of;
use crate::batch::summary::{Tally, as_table};
use crate::budgets;
use crate::command_error::CommandError;
use crate::config::Config;
use crate::data_out::{print_json, print_text};
use crate::host::{Host, now_ms};
use crate::talk::say;
use crate::view::width::Width;

/// Show the runs of a group and how they stand.
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
    /// What they may spend together.
    budget: Budget,
    spent: Spending,
    runs: &'a [RunOverview],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let runs = runs_of(&host, &args.group)?;
    let tally = Tally::of(&runs);
    let config = Config::load(&host.environment, &host.places)?;
    let budget = budgets::of_group(&host, &config, &args.group);
    let spent = budgets::spending(&runs, 0);
    if args.json {
        print_json(&Shown { v: 1, group: &args.group, tally, budget, spent, runs: &runs })?;
        return Ok(ExitCode::Success);
    }
    say(&describe(&args.group, tally));
    say(lines(&budget, &spent, judge(&budget, &spent).as_ref()).trim_end());
    let rows: Vec<&RunOverview> = runs.iter().collect();
    print_text(&format!("{}\n", as_table(&rows, now_ms(), Width::of_stdout())))?;
    Ok(ExitCode::Success)
}

/// `group nightly: 3 of 5 succeeded, 1 failed, 1 runs`.
pub(super) fn describe(group: &str, tally: Tally) -> String {
    let parts = [(tally.failed, "failed"), (tally.running, "running"), (tally.queued, "queued")];
    let mut text = format!("group {group}: {} of {} succeeded", tally.succeeded, tally.total());
    for (number, word) in parts.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!(", {number} {word}"));
    }
    text
}
