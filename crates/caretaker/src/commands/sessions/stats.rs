//! `caretaker sessions stats`: how much was said and done, by whom, when and where.

use admission::command_error::CommandError;
use cursor_stores::{Extent, parallel};
use jiff::Zoned;
use jiff::tz::TimeZone;
use run_protocol::ExitCode;
use serde::Serialize;

use super::selection::Selection;
use super::unread::name_failures;
use crate::command_helper::CommandHelper;
use crate::conversations::conversation_stats::ConversationStats;
use crate::data_out::{print_json, print_view};
use crate::running::progress::Progress;
use crate::view::stats_view;
use crate::view::width::Width;

/// Count messages, tool calls, tokens and time of the conversations that are selected.
///
/// Every conversation is read, so this takes a while where there are thousands. What no store knows is said to be
/// unknown, and never counted as nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions stats
  caretaker sessions stats -C . --since 30d
  caretaker sessions stats --all --json | jq '.tools.shell'")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    /// Those that could not be read, and are not counted.
    unread: u64,
    #[serde(flatten)]
    stats: &'a ConversationStats,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.selection.place.open(host)?;
    let heads = args.selection.select(host, &catalogue);
    let zone = TimeZone::system();
    let progress = Progress::of(heads.len(), "reading");
    // What is left of a conversation is small, so no more of them are in memory than there are threads.
    let counted_each = parallel::map(&heads, |head| {
        let stats = catalogue
            .read(head, Extent::default())
            .map(|conversation| ConversationStats::of(&conversation, &zone));
        progress.step();
        stats
    });
    drop(progress);
    let mut stats = ConversationStats::default();
    let mut failures = Vec::new();
    for (head, counted) in heads.iter().zip(counted_each) {
        match counted {
            Ok(counted) => stats = stats.plus(counted),
            Err(error) => failures.push((head, error)),
        }
    }
    let unread = name_failures(failures, "could not be read and is not counted") as u64;
    if args.json {
        print_json(&Report { v: 1, unread, stats: &stats })?;
        return Ok(ExitCode::Success);
    }
    print_view(|out| stats_view::print(out, &stats, Zoned::now().date(), Width::of_stdout()))?;
    Ok(ExitCode::Success)
}
