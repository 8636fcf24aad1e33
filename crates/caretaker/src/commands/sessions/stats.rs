//! `caretaker sessions stats`: counts messages, tools, models and tokens.

use std::sync::Mutex;

use admission::command_error::CommandError;
use cursor_stores::{Extent, parallel};
use ground::lock;
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
use crate::view::conversation::stats_view;
use crate::view::width::Width;

/// Count messages, tool calls, tokens and time in the selected conversations.
///
/// This reads every conversation, so thousands of them take a while. Unknown numbers are shown as unknown, not as zero.
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
    /// Unreadable conversations, which do not count.
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
    let stats = Mutex::new(ConversationStats::default());
    // Count each conversation right after reading it, so that only one per thread is in memory.
    let read_each = parallel::map(&heads, |head| {
        let read = catalogue.read(head, Extent::default());
        progress.step();
        read.map(|conversation| lock(&stats).add(&conversation, &zone))
    });
    drop(progress);
    let failures = heads.iter().zip(read_each).filter_map(|(head, read)| Some((head, read.err()?)));
    let unread = name_failures(failures, "cannot be read and does not count") as u64;
    let stats = &*lock(&stats);
    if args.json {
        return print_json(&Report { v: 1, unread, stats });
    }
    print_view(|out| stats_view::print(out, stats, Zoned::now().date(), Width::of_stdout()))
}
