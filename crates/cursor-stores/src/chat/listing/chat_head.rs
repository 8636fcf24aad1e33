//! The head of a chat for a list, from its meta row and its latest state.

use crate::chat::history::{EntryContent, list_messages};
use crate::chat::messages::{JsonMessage, parse_pending, without_bytes};
use crate::chat::reading::Notes;
use crate::chat::schema::{AgentMode, ConversationStateStructure};
use crate::chat::store::{BlobId, Blobs, ChatMeta, Fetched};
use crate::model::{
    Head, MessageKind, Moment, Parent, Part, PendingCall, Role, TokenUsage, Workspace,
    comparable_model,
};
use crate::text::title::title_of;
use crate::workspace_json::decode;

/// Cursor's name for a conversation that has no name yet.
const UNNAMED: &str = "New Agent";

/// Adds the facts from the meta row. Keeps facts from other sources.
pub(crate) fn add_meta(head: &mut Head, meta: &ChatMeta) {
    let name = meta.name().filter(|name| !name.is_empty() && *name != UNNAMED);
    head.title = head.title.take().or_else(|| name.map(str::to_owned));
    head.created = head.created.or_else(|| meta.created_at_ms().map(Moment::recorded));
    head.mode = head.mode.take().or_else(|| meta.mode().map(|mode| mode_name(mode).to_owned()));
    if let Some(origin) = meta.subagent_origin() {
        head.parent = Some(Parent {
            id: origin.parent_agent_id.or(origin.root_parent_agent_id).unwrap_or_default(),
            tool_call_id: origin.tool_call_id,
            type_name: origin.type_name,
        });
    }
}

/// Returns one name for a mode whose name differs between builds.
fn mode_name(mode: &str) -> &str {
    match mode {
        "default" | "auto-run" => "agent",
        "search" => "ask",
        mode => mode,
    }
}

/// Adds the facts from the latest state.
pub(crate) fn add_state(head: &mut Head, state: &ConversationStateStructure) {
    if let Some(mode) = state.mode.and_then(|mode| AgentMode::try_from(mode).ok()) {
        let name = format!("{mode:?}").to_ascii_lowercase();
        head.mode = (mode != AgentMode::Unspecified).then_some(name).or(head.mode.take());
    }
    if let Some(started) =
        state.conversation_started_timestamp_ms.and_then(|ms| i64::try_from(ms).ok())
    {
        head.created = head.created.or(Some(Moment::recorded(started)));
    }
    if head.workspace.is_none() {
        head.workspace =
            state.previous_workspace_uris.last().map(|uri| Workspace::here(path_of(uri)));
    }
    if let Some(tokens) = &state.token_details {
        let known = |tokens: u32| Some(u64::from(tokens)).filter(|tokens| *tokens > 0);
        let usage = TokenUsage {
            context_used: known(tokens.used_tokens),
            context_limit: known(tokens.max_tokens),
            ..TokenUsage::default()
        };
        head.tokens = (!usage.is_unknown()).then_some(usage);
    }
    head.pending = pending_calls(state);
    for id in subagent_ids(state) {
        if !head.subagents.contains(&id) {
            head.subagents.push(id);
        }
    }
}

fn pending_calls(state: &ConversationStateStructure) -> Vec<PendingCall> {
    let pending = parse_pending(&state.pending_tool_calls);
    let calls = pending.tool_calls.into_iter().map(|call| PendingCall {
        name: call.tool_name,
        id: Some(call.tool_call_id).filter(|id| !id.is_empty()),
        input: without_bytes(call.args),
        started: call.started_at_ms.map(Moment::recorded),
    });
    calls.collect()
}

/// Adds a model, unless the head has it under its other name: messages have ids, turns have names.
pub(crate) fn add_model(head: &mut Head, model: &str) {
    let name = comparable_model(model);
    // A model's name may omit its thinking effort.
    let is_shorter = |known: &str| {
        model.contains(' ') && comparable_model(known).starts_with(&format!("{name} "))
    };
    if !head.models.iter().any(|known| comparable_model(known) == name || is_shorter(known)) {
        head.add_model(model);
    }
}

/// Returns the sub-agents that a state names, each once.
pub(crate) fn subagent_ids(state: &ConversationStateStructure) -> Vec<String> {
    let runs = state.subagent_runs_by_parent_tool_call_id.values();
    let mut ids: Vec<String> = runs.filter_map(|run| run.subagent_id.clone()).collect();
    ids.extend(state.subagent_states.keys().chain(state.subagent_state_refs.keys()).cloned());
    ids.retain(|id| !id.is_empty());
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    ids
}

/// Returns the path of a `file:` address. Other text stays unchanged.
fn path_of(uri: &str) -> String {
    uri.strip_prefix("file://").map_or_else(|| uri.to_owned(), decode)
}

/// Adds the workspace and the title from the first messages. Builds before 2026 keep the workspace only there, and the
/// first prompt is the title of a conversation without a name.
pub(crate) fn add_first_messages(
    head: &mut Head,
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
) -> rusqlite::Result<()> {
    const MAX_CHECKED: usize = 6;
    for (number, reference) in state.root_prompt_messages_json.iter().take(MAX_CHECKED).enumerate()
    {
        if head.title.is_some() && (head.workspace.is_some() || number >= 3) {
            break;
        }
        let message = blobs.data_of(reference)?.and_then(|data| JsonMessage::parse(&data));
        let Some(message) = message.filter(|message| message.role == Role::User) else { continue };
        for part in &message.parts {
            match part {
                Part::Attachment { text: Some(text), .. } if number < 3 => {
                    head.workspace = head.workspace.take().or_else(|| workspace_in(text));
                }
                Part::Text { text } if message.kind == MessageKind::Said => {
                    head.title = head.title.take().or_else(|| title_of(text));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn workspace_in(text: &str) -> Option<Workspace> {
    let (_, path) = text.split_once("Workspace Path: ")?;
    path.lines().next().map(str::trim).filter(|path| !path.is_empty()).map(Workspace::here)
}

/// A list counts no more messages than this.
const MAX_COUNTED: usize = 50_000;
/// Enough for the id, the role and the first words.
const BEGINNING: usize = 256;

/// The number of messages in a state.
pub(crate) enum Count {
    Known(u64),
    /// Too many to count for a list.
    TooMany,
    /// Some messages are missing.
    Incomplete(u64),
}

/// Counts user and assistant messages by the first bytes of each message.
pub(crate) fn count_messages(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
) -> rusqlite::Result<Count> {
    let entries = list_messages(blobs, state, &mut Notes::default())?;
    let n_turns = state.turns.len() + state.turns_old.len();
    if entries.len() + n_turns > MAX_COUNTED {
        return Ok(Count::TooMany);
    }
    let mut is_complete = true;
    let mut n_messages = state.pending_tool_calls.len() as u64;
    for entry in &entries {
        let EntryContent::Blob(id) = entry.content else {
            n_messages += 1;
            continue;
        };
        match said(blobs, id)? {
            Some(is_said) => n_messages += u64::from(is_said),
            None => is_complete = false,
        }
    }
    for turn in &state.turns {
        n_messages += u64::from(is_command(blobs, turn)?);
    }
    if entries.is_empty() {
        // There are no prompt messages to count, so count each turn as one prompt and one answer.
        n_messages += 2 * n_turns as u64;
    }
    Ok(if is_complete { Count::Known(n_messages) } else { Count::Incomplete(n_messages) })
}

/// Like [`count_messages`], but for messages without a state. Returns `None` if there are too many.
pub(crate) fn count_said(blobs: &Blobs<'_>, ids: &[BlobId]) -> rusqlite::Result<Option<u64>> {
    if ids.len() > MAX_COUNTED {
        return Ok(None);
    }
    let mut n_messages = 0;
    for id in ids {
        n_messages += u64::from(said(blobs, *id)?.unwrap_or(false));
    }
    Ok(Some(n_messages))
}

/// True if a user or an assistant wrote the message. `None` if it is missing.
fn said(blobs: &Blobs<'_>, id: BlobId) -> rusqlite::Result<Option<bool>> {
    let mut buffer = [0; BEGINNING];
    let Some(length) = blobs.beginning(id, &mut buffer)? else { return Ok(None) };
    let beginning = &buffer[..length];
    let has = |word: &[u8]| memchr::memmem::find(beginning, word).is_some();
    if has(br#""role":"assistant""#) {
        return Ok(Some(true));
    }
    if has(br#""role":"system""#) || has(br#""role":"tool""#) {
        return Ok(Some(false));
    }
    // The beginning of a user message does not show whether it is only context.
    let Fetched::Data(data) = blobs.get(id)? else { return Ok(None) };
    Ok(Some(JsonMessage::parse(&data).is_some_and(|message| message.is_counted())))
}

/// True if a turn is a command that the user ran with `!`. Prompts do not contain those.
fn is_command(blobs: &Blobs<'_>, turn: &[u8]) -> rusqlite::Result<bool> {
    let Ok(id) = BlobId::try_from(turn) else { return Ok(false) };
    let mut buffer = [0; 1];
    let length = blobs.beginning(id, &mut buffer)?;
    // The second member of the union.
    Ok(length == Some(1) && buffer == [0x12])
}
