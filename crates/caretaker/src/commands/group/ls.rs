//! `caretaker group ls`.

use std::collections::BTreeMap;

use run_journal::RunOverview;
use run_protocol::ExitCode;
use serde::Serialize;

use super::grouped_runs;
use crate::batch::summary::Tally;
use crate::command_error::CommandError;
use crate::data_out::{print_json, print_text};
use crate::host::{Host, now_ms};
use crate::view::table::table;
use crate::view::units;
use crate::view::width::Width;

/// List the groups: how many runs of each stand how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only those that are not over.
    #[arg(long, short)]
    unfinished: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// One group in brief.
#[derive(Debug, Serialize)]
pub(crate) struct Group<'a> {
    name: &'a str,
    /// When the first of its runs was created, in milliseconds since the epoch.
    created_ms: u64,
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Debug, Serialize)]
struct Listing<'a> {
    v: u32,
    groups: &'a [Group<'a>],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let runs = grouped_runs(&host)?;
    let mut by_name: BTreeMap<&str, Vec<&RunOverview>> = BTreeMap::new();
    for run in &runs {
        by_name.entry(run.group.as_deref().unwrap_or_default()).or_default().push(run);
    }
    let mut groups: Vec<Group<'_>> = by_name
        .into_iter()
        .map(|(name, runs)| Group {
            name,
            created_ms: runs.iter().map(|run| run.created_ms).min().unwrap_or_default(),
            tally: Tally::of(runs),
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.created_ms));
    if args.unfinished {
        groups.retain(|group| group.tally.queued + group.tally.running > 0);
    }
    if args.json {
        print_json(&Listing { v: 1, groups: &groups })?;
        return Ok(ExitCode::Success);
    }
    let now = now_ms();
    let rows = groups.iter().map(|Group { name, created_ms, tally }| {
        [
            (*name).to_owned(),
            tally.total().to_string(),
            tally.queued.to_string(),
            tally.running.to_string(),
            tally.succeeded.to_string(),
            tally.failed.to_string(),
            units::age(now.saturating_sub(*created_ms)),
        ]
    });
    let header = ["GROUP", "RUNS", "QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "AGE"];
    print_text(&format!("{}\n", table(&header, rows, Width::of_stdout())))?;
    Ok(ExitCode::Success)
}
