//! `caretaker sessions ls`: lists conversations.

use std::collections::HashMap;
use std::io::Write;

use admission::command_error::CommandError;
use admission::sessions::{Listing, changed_ms};
use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use admission::words::units;
use cursor_stores::model::{Activity, Confidence, Head, Shelf, Workspace, WorkspacePlace};
use ground::now_ms;
use run_protocol::ExitCode;

use super::selection::Selection;
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::view::table::table;
use crate::view::width::Width;

/// A terminal of this width has room for whole ids.
const FULL_IDS: usize = 120;
/// About two screens.
const DEFAULT_LIMIT: usize = 50;

/// List conversations from all stores, most recently changed first.
///
/// A `~` before a number of messages means an estimate: several stores have the conversation, or it has more messages
/// than were counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions ls
  caretaker sessions ls -C . --since 3d
  caretaker sessions ls --all --limit 0 --json | jq '.sessions[].title'")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// List at most N; 0 lists all. [default: 50, and all with --json or -q]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Skip the first N.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.selection.place.open(host)?;
    let heads = args.selection.select(host, &catalogue);
    let n_sessions = heads.len();
    let is_for_programs = args.json || args.quiet;
    let limit = match args.limit {
        None if is_for_programs => usize::MAX,
        None => DEFAULT_LIMIT,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let n_shown = n_sessions.saturating_sub(args.skip).min(limit);
    if args.quiet {
        let page = heads.iter().skip(args.skip).take(limit);
        print_view(|out| {
            page.clone().try_for_each(|head| writeln!(out, "{}", on_one_line(&head.id)))
        })?;
        return Ok(ExitCode::Success);
    }
    let listing = Listing::page(host, &catalogue, heads, args.skip, limit);
    if args.json {
        return print_json(&listing);
    }
    let page: Vec<Head> = listing.sessions.into_iter().map(|listed| listed.head).collect();
    print_view(|out| writeln!(out, "{}", sessions_table(&page, now_ms(), Width::of_stdout())))?;
    let next = args.skip + n_shown;
    let n_left = n_sessions.saturating_sub(next);
    if n_left > 0 {
        note(&format!(
            "{} more: `--skip {next}` for the next, `--limit 0` for all",
            units::grouped(n_left as u64)
        ));
    }
    if n_sessions == 0 {
        note("no conversations; `caretaker sessions stores` shows where Caretaker looked");
    }
    Ok(ExitCode::Success)
}

/// The text of one column.
type Cell<'a> = Box<dyn Fn(&Head) -> String + 'a>;

fn sessions_table(heads: &[Head], now_ms: u64, width: Width) -> String {
    let room = match width {
        Width::Unlimited => usize::MAX,
        Width::Columns(columns) => columns,
    };
    let shown = if room < FULL_IDS { short_ids(heads) } else { HashMap::new() };
    // Each column has the minimum terminal width at which it appears.
    let columns: [(&str, usize, Cell<'_>); 8] = [
        ("SESSION", 0, Box::new(|head| shown.get(&head.id).unwrap_or(&head.id).clone())),
        ("STORE", 50, Box::new(stores)),
        ("STATE", 0, Box::new(|head| state(head).to_owned())),
        ("CHANGED", 40, Box::new(|head| changed(head, now_ms))),
        (
            "MSGS",
            80,
            Box::new(|head| match head.n_messages {
                None => "?".to_owned(),
                Some(count) if head.is_count_estimated => format!("~{}", units::grouped(count)),
                Some(count) => units::grouped(count),
            }),
        ),
        ("SIZE", 100, Box::new(|head| head.n_bytes.map_or_else(String::new, units::bytes))),
        (
            "WORKSPACE",
            70,
            Box::new(|head| head.workspace.as_ref().map_or_else(String::new, workspace)),
        ),
        ("TITLE", 0, Box::new(|head| head.title.clone().unwrap_or_default())),
    ];
    let columns: Vec<&(&str, usize, Cell<'_>)> =
        columns.iter().filter(|(_, least, _)| room >= *least).collect();
    let header: Vec<&str> = columns.iter().map(|(name, _, _)| *name).collect();
    let rows = heads
        .iter()
        .map(|head| -> Vec<String> { columns.iter().map(|(_, _, cell)| cell(head)).collect() });
    table(&header, rows, width)
}

/// The shortest unique prefixes of the ids. Commands accept them.
fn short_ids(heads: &[Head]) -> HashMap<String, String> {
    const SHORTEST: usize = 8;
    let mut ids: Vec<&str> = heads.iter().map(|head| head.id.as_str()).collect();
    ids.sort_unstable();
    let n_shared = |one: &str, other: &str| {
        one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
    };
    let mut short = HashMap::new();
    for (place, id) in ids.iter().enumerate() {
        let before = place.checked_sub(1).map_or(0, |before| n_shared(id, ids[before]));
        let after = ids.get(place + 1).map_or(0, |after| n_shared(id, after));
        let n_chars = (before.max(after) + 1).max(SHORTEST);
        short.insert((*id).to_owned(), id.chars().take(n_chars).collect());
    }
    short
}

/// The kinds of stores that have the conversation, richest first.
pub(crate) fn stores(head: &Head) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for origin in &head.origins {
        if !kinds.contains(&origin.store.as_str()) {
            kinds.push(origin.store.as_str());
        }
    }
    kinds.join("+")
}

/// The conversation's activity, or its shelf: draft, empty or archived.
pub(crate) fn state(head: &Head) -> &'static str {
    match (head.activity, head.shelf) {
        (Activity::Live, _) => "live",
        (Activity::Damaged, _) => "damaged",
        (Activity::Locked, _) => "locked",
        (_, Shelf::Draft) => "draft",
        (_, Shelf::Empty) => "empty",
        (_, Shelf::Archived) => "archived",
        (Activity::Interrupted, Shelf::Shown) => "interrupted",
        (Activity::Failed, Shelf::Shown) => "failed",
        (Activity::NoCheckpoint, Shelf::Shown) => "no checkpoint",
        (Activity::NotResumable, Shelf::Shown) => "not resumable",
        (Activity::Idle, Shelf::Shown) => "idle",
    }
}

/// The time since the last change; `~` if only the file's time is known.
fn changed(head: &Head, now_ms: u64) -> String {
    let Some(at) = changed_ms(head) else { return String::new() };
    let ago = units::age(now_ms.saturating_sub(u64::try_from(at).unwrap_or(0)));
    match head.updated.map(|moment| moment.confidence) {
        Some(Confidence::Recorded) => ago,
        _ => format!("~{ago}"),
    }
}

/// The path, with the machine's name in front if it is on another machine.
pub(crate) fn workspace(workspace: &Workspace) -> String {
    match &workspace.place {
        WorkspacePlace::Here => workspace.path.clone(),
        WorkspacePlace::Remote(machine) => format!("{machine}:{}", workspace.path),
    }
}
