//! `caretaker group ls`.

use std::collections::BTreeMap;

use admission::budgets::group_record::GroupRecord;
use admission::budgets::tally::Tally;
use admission::command_error::CommandError;
use admission::words::units;
use ground::now_ms;
use run_journal::RunOverview;
use run_protocol::ExitCode;
use serde::Serialize;
use serde_json::json;

use super::grouped_runs;
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_table};

/// List groups, with the number of runs in each state.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only groups with queued or live runs.
    #[arg(long, short)]
    unfinished: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The summary of one group.
#[derive(Debug, Serialize)]
pub(crate) struct Group<'a> {
    name: &'a str,
    /// When its first run was created, in milliseconds since 1970. `null`: an older version removed that run.
    created_ms: Option<u64>,
    #[serde(flatten)]
    tally: Tally,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let runs = grouped_runs(host)?;
    let mut by_name: BTreeMap<&str, Vec<&RunOverview>> = BTreeMap::new();
    for run in &runs {
        by_name.entry(run.group.as_deref().unwrap_or_default()).or_default().push(run);
    }
    // Read the records after listing the runs: a record counts a run that is removed in between.
    let records: BTreeMap<String, GroupRecord> =
        GroupRecord::with_gone_runs(&host.state).into_iter().collect();
    for name in records.keys() {
        by_name.entry(name).or_default();
    }
    let mut groups: Vec<Group<'_>> =
        by_name.into_iter().map(|(name, runs)| group(name, &runs, records.get(name))).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.created_ms));
    if args.unfinished {
        groups.retain(|group| group.tally.queued + group.tally.running > 0);
    }
    if args.json {
        return print_json(&json!({ "v": 1, "groups": groups }));
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
            created_ms.map_or(String::new(), |at| units::age(now.saturating_sub(at))),
        ]
    });
    let header = ["GROUP", "RUNS", "QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "AGE"];
    print_table(&header, rows)
}

fn group<'a>(name: &'a str, runs: &[&RunOverview], record: Option<&GroupRecord>) -> Group<'a> {
    let gone = record.and_then(|record| record.gone.as_ref());
    let created = runs.iter().map(|run| run.created_ms);
    let created_ms = created.chain(gone.and_then(|gone| gone.since_ms)).min();
    let tally = match record {
        Some(record) => record.tally(name, runs.iter().copied()),
        None => Tally::of(runs.iter().copied()),
    };
    Group { name, created_ms, tally }
}
