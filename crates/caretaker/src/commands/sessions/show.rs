//! `caretaker sessions show`: prints one conversation.

use std::io::Write;
use std::ops::ControlFlow;

use admission::command_error::{CommandError, OrFail};
use admission::sessions::tell_refused;
use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use cursor_stores::model::{Conversation, Head, StoreKind};
use cursor_stores::{Branches, Catalogue, Extent, RawRecord};
use run_protocol::{BytesPath, ExitCode};
use serde::Serialize;

use super::selection::{Filter, Where, find_filtered};
use crate::command_helper::CommandHelper;
use crate::data_out::{Data, print_json, print_view};
use crate::view::conversation::{self, Folding};

/// Show one conversation.
///
/// Tool outputs, thoughts and Cursor's context are shortened; `--full` shows all of them.
///
/// SESSION is a session's id, a unique prefix of it, or `-` for the session that changed last; `--since`, `--until`,
/// `--workspace` and `--model` narrow the choice. `ID#NAME` is a sub-agent that the conversation ID keeps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions show -
  caretaker sessions show - -C .
  caretaker sessions show 5f1c3a52 --last 10
  caretaker sessions show 5f1c3a52 --json | jq '.messages[].parts[]'
  caretaker sessions show 5f1c3a52 --raw | jq -c 'select(.record | startswith(\"meta\"))'")]
pub(crate) struct Args {
    /// The conversation.
    session: String,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    filter: Filter,
    /// Show all outputs, thoughts, tool inputs and context.
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print the stores' records, one JSON object per line: rows, blobs, file lines. Encryption keys are left out.
    #[arg(long, conflicts_with_all = ["full", "last"])]
    raw: bool,
    /// Show only the last N messages.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Show messages that were edited away or regenerated too.
    #[arg(long)]
    orphans: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let head = find_filtered(host, &catalogue, &args.filter, &args.session)?;
    let branches = if args.orphans { Branches::WithOrphans } else { Branches::Current };
    if args.raw {
        return print_raw(&catalogue, &head, branches);
    }
    let mut conversation = read(&catalogue, &head, Extent { last: args.last, branches })?;
    tell_refused(host, std::slice::from_mut(&mut conversation.head));
    if args.json {
        return print_json(&conversation);
    }
    let folding = if args.full { Folding::Open } else { Folding::Folded };
    print_view(|out| conversation::print(out, &conversation, folding))
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    v: u32,
    session: &'a str,
    store: StoreKind,
    path: &'a BytesPath,
    #[serde(flatten)]
    record: &'a RawRecord,
}

/// Prints the records of all stores that have the conversation.
fn print_raw(
    catalogue: &Catalogue,
    head: &Head,
    branches: Branches,
) -> Result<ExitCode, CommandError> {
    let mut out = Data::of_stdout();
    let mut failure = None;
    let mut n_read = 0;
    for origin in &head.origins {
        let Some(store) = catalogue.store_of(origin) else { continue };
        let mut written = Ok(());
        let visited = store.visit_raw(origin.key(head), branches, &mut |record| {
            let (session, path) = (head.id.as_str(), &origin.path);
            written =
                out.json(&JsonRecord { v: 1, session, store: origin.store, path, record: &record });
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        written.map_err(CommandError::writing)?;
        match visited {
            Ok(()) => n_read += 1,
            Err(error) => failure = Some(error),
        }
    }
    out.flush().map_err(CommandError::writing)?;
    match failure {
        None => Ok(ExitCode::Success),
        Some(error) if n_read > 0 => {
            note(&format!("incomplete: {}", on_one_line(&error.to_string())));
            Ok(ExitCode::Success)
        }
        Some(error) => Err(error).or_fail(|| unreadable(head)),
    }
}

pub(super) fn read(
    catalogue: &Catalogue,
    head: &Head,
    extent: Extent,
) -> Result<Conversation, CommandError> {
    catalogue.read(head, extent).or_fail(|| unreadable(head))
}

fn unreadable(head: &Head) -> String {
    format!("cannot read conversation {}", head.id)
}
