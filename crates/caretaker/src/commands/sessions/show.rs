//! `caretaker sessions show`: one conversation, to read.

use std::io::Write;

use cursor_stores::model::{Conversation, Head};
use cursor_stores::{Branches, Catalogue, Extent};
use run_protocol::ExitCode;

use super::selection::{Where, find};
use crate::command_error::CommandError;
use crate::data_out::print_json;
use crate::host::Host;
use crate::view::conversation::{self, Folding};

/// Show one conversation, in words.
///
/// SESSION is an id, a beginning of one that is unique, or `-` for the one that changed last. Outputs of tools, thoughts
/// and what Cursor added as context are folded; `--full` shows them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions show -
  caretaker sessions show 5f1c3a52 --last 10
  caretaker sessions show 5f1c3a52 --json | jq '.messages[].parts[]'")]
pub(crate) struct Args {
    /// The conversation.
    session: String,
    #[command(flatten)]
    place: Where,
    /// Show outputs, thoughts, inputs of tools and context whole.
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Only the last so many messages.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Also what was edited away or regenerated.
    #[arg(long)]
    orphans: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let catalogue = args.place.open(&host)?;
    let head = find(&catalogue, &args.session)?;
    let branches = if args.orphans { Branches::WithOrphans } else { Branches::Current };
    let conversation = read(&catalogue, &head, Extent { last: args.last, branches })?;
    if args.json {
        print_json(&conversation)?;
        return Ok(ExitCode::Success);
    }
    let folding = if args.full { Folding::Open } else { Folding::Folded };
    let mut out = anstream::stdout().lock();
    conversation::print(&mut out, &conversation, folding)
        .and_then(|()| out.flush())
        .map_err(CommandError::writing)?;
    Ok(ExitCode::Success)
}

pub(super) fn read(
    catalogue: &Catalogue,
    head: &Head,
    extent: Extent,
) -> Result<Conversation, CommandError> {
    catalogue.read(head, extent).map_err(|error| {
        let what = format!("the conversation {} cannot be read", head.id);
        CommandError::new(ExitCode::Failed, what).because(error)
    })
}
