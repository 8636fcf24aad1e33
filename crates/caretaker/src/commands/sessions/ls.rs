//! `caretaker sessions ls`: every conversation in one list.

use std::io::Write;

use cursor_stores::model::{Activity, Confidence, Head, Shelf, Workspace, WorkspacePlace};
use run_protocol::ExitCode;
use serde::Serialize;

use super::selection::{Selection, changed_ms};
use crate::command_error::CommandError;
use crate::data_out::print_json;
use crate::host::{Host, now_ms};
use crate::talk::note;
use crate::view::safe_text::on_one_line;
use crate::view::table::table;
use crate::view::units;
use crate::view::width::Width;

/// What fits on a screen or two.
const DEFAULT_LIMIT: usize = 50;

/// List conversations of all stores, the one that changed last first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions ls
  caretaker sessions ls -C . --since 3d
  caretaker sessions ls --all --limit 0 --json | jq '.sessions[].title'")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// List at most so many; 0 lists all. [default: 50, and all with --json or -q]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Pass over so many first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print ids alone.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Serialize)]
struct Listing<'a> {
    v: u32,
    /// How many there are, listed here or not.
    n_sessions: usize,
    sessions: &'a [Head],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let catalogue = args.selection.place.open(&host)?;
    let heads = args.selection.select(&host, &catalogue);
    let n_sessions = heads.len();
    let is_for_programs = args.json || args.quiet;
    let limit = match args.limit {
        None if is_for_programs => usize::MAX,
        None => DEFAULT_LIMIT,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let mut page: Vec<Head> = heads.into_iter().skip(args.skip).take(limit).collect();
    if !args.quiet {
        catalogue.complete(&mut page);
    }
    if args.json {
        print_json(&Listing { v: 1, n_sessions, sessions: &page })?;
        return Ok(ExitCode::Success);
    }
    let mut out = anstream::stdout().lock();
    if args.quiet {
        page.iter().try_for_each(|head| writeln!(out, "{}", on_one_line(&head.id)))
    } else {
        writeln!(out, "{}", sessions_table(&page, now_ms(), Width::of_stdout()))
    }
    .and_then(|()| out.flush())
    .map_err(CommandError::writing)?;
    let n_left = n_sessions.saturating_sub(args.skip + page.len());
    if !args.quiet && n_left > 0 {
        let next = args.skip + page.len();
        note(&format!(
            "{} more: `--skip {next}` for the next, `--limit 0` for all",
            units::grouped(n_left as u64)
        ));
    }
    if !args.quiet && n_sessions == 0 {
        note("no conversation was found; `caretaker sessions stores` says where was looked");
    }
    Ok(ExitCode::Success)
}

fn sessions_table(heads: &[Head], now_ms: u64, width: Width) -> String {
    let header = ["SESSION", "STORE", "STATE", "CHANGED", "MSGS", "SIZE", "WORKSPACE", "TITLE"];
    let rows = heads.iter().map(|head| {
        [
            head.id.clone(),
            stores(head),
            state(head).to_owned(),
            changed(head, now_ms),
            head.n_messages.map_or_else(|| "?".to_owned(), units::grouped),
            head.n_bytes.map_or_else(String::new, units::bytes),
            head.workspace.as_ref().map_or_else(String::new, workspace),
            head.title.clone().unwrap_or_default(),
        ]
    });
    table(header, rows, width)
}

/// The kinds of stores that have it, the richest first.
pub(crate) fn stores(head: &Head) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for origin in &head.origins {
        if !kinds.contains(&origin.store.as_str()) {
            kinds.push(origin.store.as_str());
        }
    }
    kinds.join("+")
}

/// What goes on in it; where the user put it, if nothing does.
pub(crate) fn state(head: &Head) -> &'static str {
    match (head.activity, head.shelf) {
        (Activity::Live, _) => "live",
        (Activity::Damaged, _) => "damaged",
        (_, Shelf::Draft) => "draft",
        (_, Shelf::Empty) => "empty",
        (_, Shelf::Archived) => "archived",
        (Activity::Interrupted, Shelf::Shown) => "interrupted",
        (Activity::Failed, Shelf::Shown) => "failed",
        (Activity::Idle, Shelf::Shown) => "idle",
    }
}

/// How long ago; `~` where only the file tells.
fn changed(head: &Head, now_ms: u64) -> String {
    let Some(at) = changed_ms(head) else { return String::new() };
    let ago = units::age(now_ms.saturating_sub(u64::try_from(at).unwrap_or(0)));
    match head.updated.map(|moment| moment.confidence) {
        Some(Confidence::Recorded) => ago,
        _ => format!("~{ago}"),
    }
}

/// The path, after the machine it is on if that is not this one.
pub(crate) fn workspace(workspace: &Workspace) -> String {
    match &workspace.place {
        WorkspacePlace::Here => workspace.path.clone(),
        WorkspacePlace::Remote(machine) => format!("{machine}:{}", workspace.path),
    }
}
