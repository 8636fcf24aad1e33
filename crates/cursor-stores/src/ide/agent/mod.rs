//! The state of an agent in the IDE: the same blobs as in a `store.db`, under other keys.

pub(crate) mod merge;
pub(crate) mod message;
pub(crate) mod prompt_rows;

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::Value as Json;

use self::message::{AgentMessage, agent_message, join_results, read_agent_message};
use super::database::{OwnedValue, Table, Vscdb};
use super::lenient::{parse, text};
use crate::chat::BlobId;
use crate::chat::schema::{
    AgentConversationTurnStructure, ConversationPlan, ConversationStateStructure, ConversationStep,
    ConversationSummaryArchive, ConversationTurnStructure, Step, TodoItem, Turn, UserMessage,
};
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
    /// In order, with system prompts and context. Results are joined to their calls.
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
    if let Some(OwnedValue::Bytes(value)) = database.get(Table::DiskKv, &key)?
        && let Some(id) = blob_id_of(&value)
        && let Some(bytes) = blob(database, id)?
        && let Ok(root) = ConversationStateStructure::decode(bytes.as_slice())
    {
        return Ok(Some(root));
    }
    Ok(text(&composer["conversationState"]).and_then(inline_root))
}

/// True if the state holds messages. A new state has only a system prompt and facts about the user.
pub(crate) fn says_something(root: &ConversationStateStructure) -> bool {
    const N_BEGUN: usize = 2;
    !root.turns.is_empty()
        || !root.turns_old.is_empty()
        || !root.summary_archives.is_empty()
        || root.root_prompt_messages_json.len() > N_BEGUN
}

/// A root inside its composer: `~` and base64.
pub(crate) fn inline_root(state: &str) -> Option<ConversationStateStructure> {
    ConversationStateStructure::decode(inline_root_bytes(state)?.as_slice()).ok()
}

pub(crate) fn inline_root_bytes(state: &str) -> Option<Vec<u8>> {
    let encoded = state.strip_prefix('~').filter(|encoded| !encoded.is_empty())?;
    STANDARD.decode(encoded).ok()
}

/// The blob that a checkpoint names: as hex, as hex in a JSON string, or as raw bytes.
pub(crate) fn blob_id_of(value: &[u8]) -> Option<BlobId> {
    BlobId::try_from(value).ok().or_else(|| {
        let text = std::str::from_utf8(value).ok()?;
        text.trim().trim_matches('"').parse().ok()
    })
}

pub(crate) fn blob(database: &Vscdb, id: BlobId) -> Result<Option<Vec<u8>>, ReadDatabaseError> {
    Ok(match database.get(Table::DiskKv, &format!("{}{id}", keys::BLOB))? {
        Some(OwnedValue::Bytes(bytes)) => Some(blob_content(&bytes).into_owned()),
        _ => None,
    })
}

/// The content of a blob. Older builds wrote hex, and an empty blob is written as a zero.
pub(crate) fn blob_content(value: &[u8]) -> Cow<'_, [u8]> {
    // A blob could consist of hex digits by itself, but no message does.
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
        if let Some(mut message) =
            parse(pending.as_bytes()).and_then(|json| agent_message("", &json))
        {
            message.message.id = None;
            message.message.kind = MessageKind::Pending;
            state.messages.push(message);
        }
    }
    join_results(&mut state.messages);
    for id in &root.todos {
        if let Ok(id) = BlobId::try_from(id.as_slice())
            && let Some(bytes) = blob(database, id)?
            && let Ok(todo) = TodoItem::decode(bytes.as_slice())
        {
            state.todos.push(Todo { text: todo.content, state: todo_state(todo.status) });
        }
    }
    if let Some(Ok(id)) = root.plan.as_deref().map(BlobId::try_from)
        && let Some(bytes) = blob(database, id)?
        && let Ok(plan) = ConversationPlan::decode(bytes.as_slice())
    {
        state.plan = Some(plan.plan).filter(|plan| !plan.is_empty());
    }
    state.tokens = token_usage(root);
    state.files = root.file_states_v2.keys().chain(root.file_states.keys()).cloned().collect();
    state.workspaces.clone_from(&root.previous_workspace_uris);
    Ok(state)
}

/// Reads the messages of the prompt, with those that were archived.
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
    let ids: Vec<&Vec<u8>> = if root.summary_archives.is_empty() {
        root.summary_archive.iter().collect()
    } else {
        root.summary_archives.iter().collect()
    };
    let mut archives = Vec::new();
    for id in ids {
        if let Ok(id) = BlobId::try_from(id.as_slice())
            && let Some(bytes) = blob(database, id)?
            && let Ok(archive) = ConversationSummaryArchive::decode(bytes.as_slice())
        {
            archives.push(archive);
        }
    }
    Ok(archives)
}

/// The other history of a root, which the IDE shows. Used if the messages of the prompt are missing.
fn messages_of_turns(
    database: &Vscdb,
    root: &ConversationStateStructure,
) -> Result<Vec<AgentMessage>, ReadDatabaseError> {
    let mut messages = Vec::new();
    let old = root.turns_old.iter().map(|id| (id, true));
    for (id, is_old) in old.chain(root.turns.iter().map(|id| (id, false))) {
        let Ok(id) = BlobId::try_from(id.as_slice()) else { continue };
        let Some(bytes) = blob(database, id)? else { continue };
        let turn = if is_old {
            AgentConversationTurnStructure::decode(bytes.as_slice()).ok()
        } else {
            match ConversationTurnStructure::decode(bytes.as_slice())
                .ok()
                .and_then(|turn| turn.turn)
            {
                Some(Turn::AgentConversationTurn(turn)) => Some(turn),
                _ => None,
            }
        };
        if let Some(turn) = turn {
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
    let request_id = turn.request_id.clone().filter(|id| !id.is_empty());
    if let Ok(id) = BlobId::try_from(turn.user_message.as_slice())
        && let Some(bytes) = blob(database, id)?
        && let Ok(user) = UserMessage::decode(bytes.as_slice())
    {
        let mut said = user.text;
        if said.is_empty()
            && let Some(Ok(id)) = user.text_blob_id.as_deref().map(BlobId::try_from)
            && let Some(bytes) = blob(database, id)?
        {
            said = String::from_utf8_lossy(&bytes).into_owned();
        }
        let mut message = Message::new(Role::User, vec![Part::text(said)]);
        message.id = Some(user.message_id).filter(|id| !id.is_empty());
        message.at = recorded(user.started_at_ms);
        if user.is_simulated_msg == Some(true) {
            message.kind = MessageKind::Simulated;
        }
        messages.push(AgentMessage { message, request_id });
    }
    for id in &turn.steps {
        let Ok(id) = BlobId::try_from(id.as_slice()) else { continue };
        let Some(bytes) = blob(database, id)? else { continue };
        let Ok(step) = ConversationStep::decode(bytes.as_slice()) else { continue };
        let (part, at) = match step.message {
            Some(Step::AssistantMessage(said)) => (Part::text(said.text), said.started_at_ms),
            Some(Step::ThinkingMessage(thought)) => {
                let duration_ms =
                    Some(u64::from(thought.duration_ms)).filter(|duration| *duration > 0);
                (
                    Part::Reasoning { text: thought.text, duration_ms, is_redacted: false },
                    thought.started_at_ms,
                )
            }
            Some(Step::ToolCall(call)) => {
                let name = call.tool.as_ref().map_or("", |tool| tool.name());
                let mut read = ToolCall::new(name, Json::Null);
                read.id = call.tool_call_id.clone();
                (Part::ToolCall(read), call.started_at_ms)
            }
            None => continue,
        };
        let mut message = Message::new(Role::Assistant, vec![part]);
        message.id = Some(id.to_string());
        message.at = recorded(at);
        messages.push(AgentMessage { message, request_id: None });
    }
    Ok(())
}

fn recorded(at_ms: Option<u64>) -> Option<Moment> {
    at_ms
        .and_then(|at_ms| i64::try_from(at_ms).ok())
        .filter(super::lenient::is_time)
        .map(Moment::recorded)
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
