//! `caretaker sessions fork`: copies a session into a new one.

use admission::command_error::CommandError;
use admission::inheritance::earlier_run;
use admission::words::talk::{note, say};
use admission::words::units::{bytes, counted};
use cursor_stores::model::Head;
use cursor_stores::session_copy::{CopyError, ForkPoint, Forked, NewSession, fork, retell};
use cursor_stores::{Catalogue, Extent};
use run_protocol::ExitCode;
use run_shim::pending_tools;
use serde::Serialize;
use uuid::Uuid;

use super::chat_place::{ChatPlace, known_workspace, physical_workspace, place_in};
use super::selection::{Where, find};
use super::show::read;
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_text};
use crate::view::words;

/// Copy a session into a new one, in full or as it was before an earlier turn.
///
/// The original stays untouched, and may be in use. The command prints the id of the copy. The copy has only the blobs
/// that its conversation refers to, so it is often smaller. ACP sessions become command-line sessions. So do
/// conversations from the IDE, the SDK and transcripts: prompts and answers verbatim, tool calls in words.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions fork 5f1c3a52
  caretaker sessions fork - --at 3            # what was said before the third prompt
  caretaker sessions fork - --workspace ../other-checkout")]
pub(crate) struct Args {
    /// The session.
    session: String,
    #[command(flatten)]
    place: Where,
    /// Copy only what came before this turn, counted from 1, or before the turn that contains this message: an id from
    /// `sessions show --json`. [default: everything]
    #[arg(long, value_name = "TURN|MESSAGE")]
    at: Option<String>,
    /// The workspace of the copy. [default: that of the original]
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<std::path::PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    session: &'a str,
    original: &'a str,
    directory: &'a std::path::Path,
    workspace: &'a str,
    root: String,
    n_prompt_messages: usize,
    n_turns: usize,
    n_pending_tool_calls: usize,
    #[serde(flatten)]
    tally: cursor_stores::session_copy::CopyTally,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let head = find(&catalogue, &args.session)?;
    let original = ChatPlace::all_of(&head).into_iter().next();
    let workspace = match args.workspace.clone().or_else(|| known_workspace(&catalogue, &head)) {
        Some(workspace) => physical_workspace(host, &workspace)
            .map_err(|error| error.hint("name the directory of the copy with --workspace DIR"))?,
        None => {
            let what = format!("the workspace of {} is unknown", head.id);
            return Err(CommandError::new(ExitCode::Usage, what)
                .hint("name the directory of the copy with --workspace DIR"));
        }
    };
    let copy = Uuid::new_v4();
    let target = place_in(host, &workspace, copy)?;
    // Save the terms before the copy exists, so that the copy can never do more than the original.
    if let Ok(from) = head.id.parse() {
        earlier_run::keep_for_copy(&host.state, from, copy)?;
    }
    let forked = match &original {
        Some(original) => fork(&original.database(), &fork_point(args), &target)
            .map_err(|error| not_forked(&original.id, error)),
        None => tell_again(args, &catalogue, &head, &target),
    };
    let forked = forked.inspect_err(|_| earlier_run::forget_copy(&host.state, copy))?;
    if args.json {
        print_json(&Report {
            v: 1,
            session: &target.id,
            original: original.as_ref().map_or(&head.id, |original| &original.id),
            directory: &forked.directory,
            workspace: &target.workspace,
            root: forked.root.to_string(),
            n_prompt_messages: forked.n_prompt_messages,
            n_turns: forked.n_turns,
            n_pending_tool_calls: forked.pending.tool_calls.len(),
            tally: forked.tally,
        })?;
    } else {
        print_text(&format!("{}\n", target.id))?;
    }
    tell(&forked, &target, original.is_some());
    Ok(ExitCode::Success)
}

/// Copies a conversation from another kind of store, as plain text.
fn tell_again(
    args: &Args,
    catalogue: &Catalogue,
    head: &Head,
    target: &NewSession,
) -> Result<Forked, CommandError> {
    if args.at.is_some() {
        let what = format!("cannot copy only part of {}", head.id);
        return Err(CommandError::new(ExitCode::Usage, what)
            .because("its store keeps no checkpoints of earlier turns")
            .hint("leave out --at"));
    }
    let conversation = read(catalogue, head, Extent::default())?;
    retell(&conversation, target).map_err(|error| not_forked(&head.id, error))
}

fn fork_point(args: &Args) -> ForkPoint {
    match &args.at {
        None => ForkPoint::Latest,
        Some(text) => match text.parse() {
            // Message ids are longer.
            Ok(turn) if text.len() < 7 => ForkPoint::BeforeTurn(turn),
            _ => ForkPoint::At(text.clone()),
        },
    }
}

fn not_forked(id: &str, error: CopyError) -> CommandError {
    let hint = match &error {
        CopyError::NoSuchTurn { .. } => {
            Some(format!("turns count from 1: caretaker sessions show {id}"))
        }
        CopyError::NoSuchMessage { .. } => {
            let show = format!("caretaker sessions show {id} --json");
            Some(format!("see the ids of its messages: {show}"))
        }
        _ => None,
    };
    let what = format!("cannot fork {id}");
    CommandError::new(exit_code(&error), what).because(error).hint_if_any(hint)
}

fn tell(forked: &Forked, target: &NewSession, is_exact: bool) {
    let tally = &forked.tally;
    let turns = counted(forked.n_turns as u64, "turn", "turns");
    if is_exact {
        let left = tally.n_source_blobs.saturating_sub(tally.n_blobs);
        say(&format!(
            "copied {turns}, {}; left out {} that nothing refers to, which saves {} of {}",
            counted(tally.n_blobs, "blob", "blobs"),
            counted(left, "blob", "blobs"),
            bytes(tally.n_source_bytes.saturating_sub(tally.n_bytes)),
            bytes(tally.n_source_bytes),
        ));
    } else {
        say(&format!(
            "copied {turns} as text: prompts and answers verbatim, tool calls in words, no thoughts"
        ));
    }
    if tally.n_damaged > 0 {
        note(&format!(
            "{} of the history cannot be read or checked; the prompt is complete",
            counted(tally.n_damaged, "blob", "blobs")
        ));
    }
    for call in pending_tools(&forked.pending) {
        say(&words::interrupted(&call));
    }
    say(&format!("continue it with: caretaker resume {} 'PROMPT'", target.id));
}

pub(super) fn exit_code(error: &CopyError) -> ExitCode {
    use CopyError as E;
    match error {
        E::NoSuchTurn { .. } | E::NoSuchMessage { .. } => ExitCode::NotFound,
        E::Ambiguous { .. } => ExitCode::Usage,
        E::NoRoot
        | E::RootMissing { .. }
        | E::RootDamaged { .. }
        | E::RootUndecodable { .. }
        | E::NoStateBefore { .. }
        | E::NothingBefore { .. }
        | E::PromptDamaged { .. }
        | E::NothingSaid => ExitCode::NotResumable,
        _ => ExitCode::Failed,
    }
}
