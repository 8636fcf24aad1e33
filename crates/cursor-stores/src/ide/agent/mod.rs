//! An agent's state in the IDE: the same blobs as in a `store.db`, under different keys.

pub(crate) mod merge;
pub(crate) mod message;
pub(crate) mod prompt_rows;

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::Value as Json;

use self::message::{AgentMessage, join_results, read_agent_message};
use super::database::{Table, Value, Vscdb};
use super::lenient::{is_time, text};
use crate::chat::BlobId;
use crate::chat::references::BlobKind;
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationPlan, ConversationStateStructure, ConversationStep,
    ConversationSummaryArchive, ConversationTurnStructure, Step, TodoItem, Turn, UserMessage,
};
use crate::chat::store::{BlobWalk, EarlierStates, MAX_REFERENCES, Visit};
use crate::database::ReadDatabaseError;
use crate::ide::database::keys;
use crate::model::{
    Damage, Message, MessageKind, Moment, Part, Role, Todo, TodoState, TokenUsage, ToolCall,
};

/// Real conversations have a few thousand messages.
const MAX_MESSAGES: usize = 100_000;

/// The content of an agent's state.
#[derive(Debug, Default)]
pub(crate) struct AgentState {
    /// In order, with system prompts and context. Results are attached to their calls.
    pub(crate) messages: Vec<AgentMessage>,
    pub(crate) todos: Vec<Todo>,
    pub(crate) plan: Option<String>,
    pub(crate) tokens: Option<TokenUsage>,
    pub(crate) files: Vec<String>,
    pub(crate) workspaces: Vec<String>,
    pub(crate) damage: Vec<Damage>,
}

/// Finds and decodes the root of a conversation, from its checkpoint or from its composer.
pub(crate) fn find_root(
    database: &Vscdb,
    composer_id: &str,
    composer: &Json,
) -> Result<Option<ConversationStateStructure>, ReadDatabaseError> {
    let key = format!("{}{composer_id}", keys::CHECKPOINT);
    let root = match database.get(Table::DiskKv, &key)? {
        Some(Value::Bytes(value)) => match blob_id_of(&value) {
            Some(id) => decoded(database, &id.to_vec())?,
            None => None,
        },
        _ => None,
    };
    Ok(root.or_else(|| text(&composer["conversationState"]).and_then(inline_root)))
}

/// True if the state contains messages. A new state has only a system prompt and facts about the user.
pub(crate) fn says_something(root: &ConversationStateStructure) -> bool {
    const N_BEGUN: usize = 2;
    !root.turns.is_empty()
        || !root.turns_old.is_empty()
        || !root.summary_archives.is_empty()
        || root.root_prompt_messages_json.len() > N_BEGUN
}

/// Decodes a root inside its composer: `~` and base64.
pub(crate) fn inline_root(state: &str) -> Option<ConversationStateStructure> {
    ConversationStateStructure::decode(inline_root_bytes(state)?.as_slice()).ok()
}

pub(crate) fn inline_root_bytes(state: &str) -> Option<Vec<u8>> {
    let encoded = state.strip_prefix('~').filter(|encoded| !encoded.is_empty())?;
    STANDARD.decode(encoded).ok()
}

/// Returns the blob that a checkpoint names: as hex, as hex in a JSON string, or as raw bytes.
pub(crate) fn blob_id_of(value: &[u8]) -> Option<BlobId> {
    BlobId::try_from(value).ok().or_else(|| {
        let text = std::str::from_utf8(value).ok()?;
        text.trim().trim_matches('"').parse().ok()
    })
}

pub(crate) fn blob(database: &Vscdb, id: BlobId) -> Result<Option<Vec<u8>>, ReadDatabaseError> {
    Ok(match database.get(Table::DiskKv, &format!("{}{id}", keys::BLOB))? {
        Some(Value::Bytes(bytes)) => Some(blob_content(&bytes).into_owned()),
        _ => None,
    })
}

/// Decodes the message in a blob. `None` if there is no such blob, or it is not such a message.
fn decoded<M: prost::Message + Default>(
    database: &Vscdb,
    id: &[u8],
) -> Result<Option<M>, ReadDatabaseError> {
    let Ok(id) = BlobId::try_from(id) else { return Ok(None) };
    Ok(blob(database, id)?.and_then(|bytes| M::decode(bytes.as_slice()).ok()))
}

/// Walks from a state to everything that it leads to, except earlier states. `load` takes each blob, and returns its
/// bytes if the walk should continue from there.
pub(crate) fn walk_state(root: &[u8], load: &mut dyn FnMut(&Visit) -> Option<Vec<u8>>) {
    let mut walk = BlobWalk::new(EarlierStates::Skip, MAX_REFERENCES);
    // A blob that does not decode refers to nothing.
    walk.follow(None, BlobKind::Root, root, &mut |_| {}).ok();
    while let Some(visit) = walk.next() {
        if let Some(bytes) = load(&visit) {
            walk.follow(Some(visit.id), visit.kind, &bytes, &mut |_| {}).ok();
        }
    }
}

/// Returns the content of a blob. Older builds wrote hex, and an empty blob is written as a zero.
pub(crate) fn blob_content(value: &[u8]) -> Cow<'_, [u8]> {
    // A blob could happen to consist of hex digits, but no message does.
    let may_be_hex =
        value.len().is_multiple_of(2) && value.iter().take(16).all(u8::is_ascii_hexdigit);
    match (may_be_hex && !value.is_empty()).then(|| hex::decode(value)) {
        Some(Ok(content)) => Cow::Owned(content),
        _ if value == [0] => Cow::Borrowed(&[]),
        _ => Cow::Borrowed(value),
    }
}

/// Reads everything that a root refers to. `last` limits the number of messages, from the end.
pub(crate) fn read_state(
    database: &Vscdb,
    root: &ConversationStateStructure,
    last: Option<usize>,
) -> Result<AgentState, ReadDatabaseError> {
    let mut state = AgentState::default();
    read_prompt(database, root, last, &mut state)?;
    if state.messages.is_empty() && !(root.turns.is_empty() && root.turns_old.is_empty()) {
        state.messages = messages_of_turns(database, root)?;
    }
    for pending in &root.pending_tool_calls {
        if let Some(mut message) = read_agent_message("", pending.as_bytes()) {
            message.message.id = None;
            message.message.kind = MessageKind::Pending;
            state.messages.push(message);
        }
    }
    join_results(&mut state.messages);
    for id in &root.todos {
        if let Some(todo) = decoded::<TodoItem>(database, id)? {
            state.todos.push(Todo { text: todo.content, state: todo_state(todo.status) });
        }
    }
    let plan: Option<ConversationPlan> =
        decoded(database, root.plan.as_deref().unwrap_or_default())?;
    state.plan = plan.map(|plan| plan.plan).filter(|plan| !plan.is_empty());
    state.tokens = token_usage(root);
    state.files = root.file_states_v2.keys().chain(root.file_states.keys()).cloned().collect();
    state.workspaces.clone_from(&root.previous_workspace_uris);
    Ok(state)
}

/// Reads the prompt messages, including archived ones.
fn read_prompt(
    database: &Vscdb,
    root: &ConversationStateStructure,
    last: Option<usize>,
    state: &mut AgentState,
) -> Result<(), ReadDatabaseError> {
    let mut seen = HashSet::new();
    let mut prompt_ids: Vec<&[u8]> = Vec::new();
    let archives = archives(database, root)?;
    for archive in &archives {
        prompt_ids.extend(archive.summarized_messages.iter().map(Vec::as_slice));
    }
    let n_archived = prompt_ids.len();
    prompt_ids.extend(root.root_prompt_messages_json.iter().map(Vec::as_slice));
    let skipped = prompt_ids.len().saturating_sub(last.unwrap_or(MAX_MESSAGES));
    for (number, id) in prompt_ids.into_iter().enumerate().skip(skipped) {
        let Ok(id) = BlobId::try_from(id) else { continue };
        // A compaction keeps some messages that it archives. Within one list, equal messages are one blob and count
        // each time.
        if number < n_archived {
            seen.insert(id);
        } else if seen.contains(&id) {
            continue;
        }
        let place = format!("{}{id}", keys::BLOB);
        match blob(database, id)? {
            None => state.damage.push(Damage::new(place, "the message is missing")),
            Some(bytes) => match read_agent_message(&id.to_string(), &bytes) {
                Some(message) => state.messages.push(message),
                None => {
                    state.damage.push(Damage::new(place, "the message is encrypted or damaged"))
                }
            },
        }
    }
    Ok(())
}

fn token_usage(root: &ConversationStateStructure) -> Option<TokenUsage> {
    let tokens = root.token_details.as_ref()?;
    let known = |count: u32| (count > 0).then_some(u64::from(count));
    let usage = TokenUsage {
        context_used: known(tokens.used_tokens),
        context_limit: known(tokens.max_tokens),
        ..TokenUsage::default()
    };
    (!usage.is_unknown()).then_some(usage)
}

fn archives(
    database: &Vscdb,
    root: &ConversationStateStructure,
) -> Result<Vec<ConversationSummaryArchive>, ReadDatabaseError> {
    let ids = if root.summary_archives.is_empty() {
        root.summary_archive.as_slice()
    } else {
        &root.summary_archives
    };
    let archives: Result<Vec<_>, _> = ids.iter().map(|id| decoded(database, id)).collect();
    Ok(archives?.into_iter().flatten().collect())
}

/// Reads a root's other history, which the IDE shows. Used if the prompt messages are missing.
fn messages_of_turns(
    database: &Vscdb,
    root: &ConversationStateStructure,
) -> Result<Vec<AgentMessage>, ReadDatabaseError> {
    let mut messages = Vec::new();
    for id in &root.turns_old {
        if let Some(turn) = decoded(database, id)? {
            read_turn(database, &turn, &mut messages)?;
        }
    }
    for id in &root.turns {
        if let Some(ConversationTurnStructure { turn: Some(Turn::AgentConversationTurn(turn)) }) =
            decoded(database, id)?
        {
            read_turn(database, &turn, &mut messages)?;
        }
    }
    Ok(messages)
}

fn read_turn(
    database: &Vscdb,
    turn: &AgentConversationTurnStructure,
    messages: &mut Vec<AgentMessage>,
) -> Result<(), ReadDatabaseError> {
    let mut add = |message: Message, at_ms: Option<u64>, request_id: Option<String>| {
        let at = at_ms.and_then(|at_ms| i64::try_from(at_ms).ok()).filter(is_time);
        let message = Message { at: at.map(Moment::recorded), ..message };
        messages.push(AgentMessage::new(message, request_id));
    };
    if let Some(user) = decoded::<UserMessage>(database, &turn.user_message)? {
        let mut said = user.text;
        if said.is_empty()
            && let Some(Ok(id)) = user.text_blob_id.as_deref().map(BlobId::try_from)
            && let Some(bytes) = blob(database, id)?
        {
            said = String::from_utf8_lossy(&bytes).into_owned();
        }
        let mut message = Message::new(Role::User, vec![Part::text(said)]);
        message.id = Some(user.message_id).filter(|id| !id.is_empty());
        if user.is_simulated_msg == Some(true) {
            message.kind = MessageKind::Simulated;
        }
        let request_id = turn.request_id.clone().filter(|id| !id.is_empty());
        add(message, user.started_at_ms, request_id);
    }
    for id in &turn.steps {
        let step: Option<ConversationStep> = decoded(database, id)?;
        let (part, at_ms) = match step.and_then(|step| step.message) {
            Some(Step::AssistantMessage(said)) => (Part::text(said.text), said.started_at_ms),
            Some(Step::ThinkingMessage(thought)) => {
                let duration_ms = Some(u64::from(thought.duration_ms)).filter(|it| *it > 0);
                let part = Part::Reasoning { text: thought.text, duration_ms, is_redacted: false };
                (part, thought.started_at_ms)
            }
            Some(Step::ToolCall(call)) => {
                let name = call.tool.as_ref().map_or("", |tool| tool.name());
                let mut read = ToolCall::new(name, Json::Null);
                read.id = call.tool_call_id.clone();
                (Part::ToolCall(read), call.started_at_ms)
            }
            None => continue,
        };
        let id = BlobId::try_from(id.as_slice()).ok().map(|id| id.to_string());
        add(Message { id, ..Message::new(Role::Assistant, vec![part]) }, at_ms, None);
    }
    Ok(())
}

fn todo_state(status: i32) -> TodoState {
    match status {
        1 => TodoState::Pending,
        2 => TodoState::InProgress,
        3 => TodoState::Completed,
        4 => TodoState::Cancelled,
        _ => TodoState::Unknown,
    }
}
