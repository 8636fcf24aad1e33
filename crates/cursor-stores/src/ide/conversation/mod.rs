//! Assembles one conversation from its rows: what the IDE shows, completed with what the model got.

mod assemble;
pub(crate) mod attachments;
pub(crate) mod bubble;
pub(crate) mod composer;
pub(crate) mod gather;
mod side_rows;
pub(crate) mod tool;
pub(crate) mod turns;

use std::collections::HashSet;

use ground::with_causes;
use serde_json::{Value as Json, json};

use self::assemble::assemble;
use self::bubble::{Bubble, model_of, read_bubble};
use self::composer::inline_bubbles;
use self::gather::{gather, has_task, visit_rows};
use self::tool::todos;
use self::turns::number_turns;
use super::agent::{AgentState, find_root, read_state};
use super::database::{Value, Vscdb};
use super::lenient::{items, parse_object, text, text_of, texts};
use crate::ide::agent::merge::merge_state;
use crate::ide::agent::prompt_rows::find_by_request;
use crate::ide::database::keys;
use crate::ide::listing::Composer;
use crate::ide::listing::headers::Headers;
use crate::ide::listing::heads::make_head;
use crate::ide::listing::summary::Summary;
use crate::ide::listing::workspaces::workspace_of_id;
use crate::ide::store::{IdeStore, Opened};
use crate::model::{
    Activity, Conversation, Damage, Head, Message, MessageKind, Part, Role, Shelf, ToolState,
};
use crate::spread_times::spread_times;
use crate::store::{Branches, Extent, IndexableStore, ReadConversationError};
use crate::workspace_json::{workspace_of_json, workspace_of_uri};

pub(crate) fn read(
    store: &IdeStore,
    id: &str,
    extent: Extent,
) -> Result<Conversation, ReadConversationError> {
    let opened = store.open()?;
    opened.pool.with(Vscdb::check).map_err(|err| store.unreadable(err))?;
    let gathered = gather(&opened.pool, id, extent).map_err(|err| store.unreadable(err))?;
    if matches!(gathered.row, None | Some(Composer::Tombstone))
        && gathered.bubbles.is_empty()
        && gathered.damage.is_empty()
    {
        return Err(ReadConversationError::Missing(store.path.clone()));
    }
    let composer = &gathered.composer;
    let mut damage: Vec<Damage> =
        damage_of_composer(id, gathered.row.as_ref()).into_iter().collect();
    let mut assembled = assemble(id, &gathered, extent);
    let state = agent_state(store, &opened, id, composer, &assembled.bubbles, extent, &mut damage);
    let mut bubbles = merge_state(std::mem::take(&mut assembled.bubbles), &state, extent);
    mark_pending(&mut bubbles, composer);
    add_summary(&mut bubbles, composer);
    let mut head = head_of(store, &opened, id, gathered.row.as_ref());
    let n_said = bubbles.iter().filter(|bubble| is_said(&bubble.message)).count() as u64;
    let is_whole = extent.last.is_none();
    if is_whole {
        head.n_messages = Some(n_said);
    }
    extent.cut(&mut bubbles);
    let created = head.created.filter(|_| is_whole).map(|at| at.at_ms);
    let messages = bubbles.iter_mut().map(|bubble| &mut bubble.message);
    spread_times(messages, created, head.updated.map(|at| at.at_ms));
    let turns = number_turns(&mut bubbles, text(&composer["status"]));
    link_tasks(&opened, &mut bubbles, &mut head);
    finish_head(&mut head, &bubbles, &state, store);
    if bubbles.is_empty() {
        bubbles.extend(unsent(composer));
    }
    let beside = side_rows::tell(&opened.pool, id, composer, extent, &mut bubbles);
    if extent.branches == Branches::WithOrphans {
        bubbles.append(&mut assembled.orphans);
    }
    let mut conversation = Conversation::new(head);
    conversation.turns = turns;
    conversation.messages = bubbles.into_iter().map(|bubble| bubble.message).collect();
    conversation.todos = todos(&composer["todos"]);
    if conversation.todos.is_empty() {
        conversation.todos = state.todos;
    }
    conversation.plan = state.plan.or_else(|| plan(composer));
    conversation.files = files(composer, state.files);
    conversation.also_kept.extend(beside.left);
    if assembled.n_orphans > 0 {
        conversation.also_kept.insert("bubbleId without reference".to_owned(), assembled.n_orphans);
    }
    damage.extend(gathered.damage);
    damage.append(&mut assembled.damage);
    damage.extend(state.damage);
    damage.extend(beside.damage);
    // Even in a truncated file, many conversations are complete: the composer names all messages.
    if !damage.is_empty() || !opened.is_salvaged_itself() {
        damage.splice(0..0, opened.damage());
    }
    if !damage.is_empty() && conversation.head.activity != Activity::Live {
        conversation.head.activity = Activity::Damaged;
    }
    conversation.damage = damage;
    Ok(conversation)
}

/// Returns the models that bubbles and the agent's state name. Does not assemble the conversation.
pub(crate) fn models(opened: &Opened, id: &str) -> Vec<String> {
    let mut models = Vec::new();
    let mut composer = Json::Null;
    visit_rows(&opened.pool, id, &mut |row| {
        let Value::Bytes(bytes) = &row.value else { return };
        let is_composer = row.key.starts_with(keys::COMPOSER);
        let names_model = memchr::memmem::find(bytes, b"\"model").is_some();
        if !is_composer && !names_model {
            return;
        }
        let Some(json) = parse_object(bytes) else { return };
        if is_composer {
            let inline = inline_bubbles(&json);
            models.extend(inline.into_iter().filter_map(model_of).map(str::to_owned));
            composer = json;
        } else {
            models.extend(model_of(&json).map(str::to_owned));
        }
    });
    let state = opened.pool.with(|database| match find_root(database, id, &composer)? {
        Some(root) => read_state(database, &root, None).map(Some),
        None => Ok(None),
    });
    let given = state.ok().flatten().map(|state| state.messages).unwrap_or_default();
    models.extend(given.into_iter().filter_map(|message| message.message.model));
    models
}

/// True if the message count includes this message.
fn is_said(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant)
        && matches!(message.kind, MessageKind::Said | MessageKind::Pending | MessageKind::Simulated)
}

fn damage_of_composer(id: &str, row: Option<&Composer>) -> Option<Damage> {
    let what = match row {
        Some(Composer::Summary(_)) => return None,
        // Sub-agents of older builds never had this row.
        None if id.starts_with(keys::TASK) => return None,
        None => "the row is missing, so the messages are in the order of their times",
        Some(Composer::Tombstone) => {
            "the conversation was deleted, and some of its messages were not"
        }
        Some(Composer::Damaged(what)) => what,
    };
    Some(Damage::new(keys::composer(id), what))
}

/// Returns the agent's state. If there is none, finds the turns' messages in the blobs.
fn agent_state(
    store: &IdeStore,
    opened: &Opened,
    id: &str,
    composer: &Json,
    bubbles: &[Bubble],
    extent: Extent,
    damage: &mut Vec<Damage>,
) -> AgentState {
    // The IDE shows each step as a message. The model has at most as many messages.
    let read = opened.pool.with(|database| match find_root(database, id, composer)? {
        Some(root) => read_state(database, &root, extent.last).map(Some),
        None => Ok(None),
    });
    match read {
        Ok(Some(state)) => state,
        // Searching all blobs pays off for finished conversations, not for one that is still running.
        Ok(None) if extent.last.is_none() && text(&composer["status"]) != Some("generating") => {
            let messages =
                find_by_request(&opened.pool, &store.prompt_rows, store.fingerprint(), bubbles);
            AgentState { messages, ..AgentState::default() }
        }
        Ok(None) => AgentState::default(),
        Err(err) => {
            damage.push(Damage::new(format!("{}{id}", keys::CHECKPOINT), with_causes(&err)));
            AgentState::default()
        }
    }
}

fn mark_pending(bubbles: &mut [Bubble], composer: &Json) {
    let generating: HashSet<String> = texts(&composer["generatingBubbleIds"]).into_iter().collect();
    for bubble in bubbles {
        if bubble.message.id.as_ref().is_some_and(|id| generating.contains(id)) {
            bubble.message.kind = MessageKind::Pending;
        }
    }
}

/// Inserts a summary after the last message that it covers.
fn add_summary(bubbles: &mut Vec<Bubble>, composer: &Json) {
    let summary = &composer["latestConversationSummary"];
    let said =
        text(&summary["summary"]["summary"]).or_else(|| text_of(summary, &["summary", "text"]));
    let Some(said) = said else { return };
    let last = text_of(summary, &["lastBubbleId", "bubbleId", "truncationLastBubbleIdInclusive"])
        .or_else(|| text(&summary["summary"]["truncationLastBubbleIdInclusive"]));
    let place = last.and_then(|last| {
        bubbles.iter().position(|bubble| bubble.message.id.as_deref() == Some(last))
    });
    let mut bubble = read_bubble(&json!({"type": 2, "text": said}), &Json::Null);
    bubble.message.kind = MessageKind::Summary;
    bubbles.insert(place.map_or(bubbles.len(), |place| place + 1), bubble);
}

/// Returns the text that the user typed into a conversation but never sent.
fn unsent(composer: &Json) -> Option<Bubble> {
    let typed = json!({"type": 1, "text": composer["text"], "richText": composer["richText"]});
    let mut bubble = read_bubble(&typed, &Json::Null);
    bubble.message.kind = MessageKind::Pending;
    (!bubble.message.parts.is_empty()).then_some(bubble)
}

fn head_of(store: &IdeStore, opened: &Opened, id: &str, row: Option<&Composer>) -> Head {
    let nothing = Summary::default();
    let summary = row.and_then(Composer::summary).unwrap_or(&nothing);
    let headers =
        opened.pool.with(|database| Headers::read(database, Some(id))).unwrap_or_default();
    let mut workspace = |ids: &[Option<&str>]| {
        ids.iter().flatten().find_map(|id| workspace_of_id(&store.workspace_storage, id))
    };
    let mut head =
        make_head(id, store.origin(), summary, &headers, store.has_writer(), &mut workspace);
    if head.workspace.is_none() {
        let links = store.links();
        head.workspace = links.workspace(id).cloned().or_else(|| summary.repository.clone());
        head.title = head.title.take().or_else(|| links.title(id).map(str::to_owned));
    }
    head
}

/// Links each sub-agent call to the conversation that it started.
fn link_tasks(opened: &Opened, bubbles: &mut [Bubble], head: &mut Head) {
    for part in bubbles.iter_mut().flat_map(|bubble| &mut bubble.message.parts) {
        let Part::ToolCall(call) = part else { continue };
        if call.subagent.is_none()
            && let Some(id) = call.id.as_deref()
            && (call.tool == "task" || call.name.is_empty() || call.name.contains("task"))
            && has_task(&opened.pool, id)
        {
            call.subagent = Some(format!("{}{id}", keys::TASK));
        }
        if let Some(subagent) = &call.subagent
            && !head.subagents.contains(subagent)
        {
            head.subagents.push(subagent.clone());
        }
    }
}

fn finish_head(head: &mut Head, bubbles: &[Bubble], state: &AgentState, store: &IdeStore) {
    for bubble in bubbles {
        if let Some(model) = &bubble.message.model {
            head.add_model(model);
        }
        for call in bubble.message.tool_calls().filter(|call| call.state == ToolState::Pending) {
            head.pending.push(call.into());
        }
    }
    head.mode =
        head.mode.take().or_else(|| bubbles.iter().rev().find_map(|bubble| bubble.mode.clone()));
    head.tokens = head.tokens.or(state.tokens);
    let is_idle = head.activity == Activity::Idle;
    if is_idle && !head.pending.is_empty() {
        head.activity = if store.has_writer() { Activity::Live } else { Activity::Interrupted };
    }
    if !bubbles.is_empty() && matches!(head.shelf, Shelf::Empty | Shelf::Draft) {
        head.shelf = Shelf::Shown;
    }
    head.workspace = head
        .workspace
        .take()
        .or_else(|| state.workspaces.iter().find_map(|uri| workspace_of_uri(uri)))
        .or_else(|| {
            bubbles.iter().flat_map(|bubble| &bubble.workspaces).find_map(workspace_of_json)
        });
}

fn plan(composer: &Json) -> Option<String> {
    text_of(&composer["plan"], &["plan", "content", "text"])
        .or_else(|| text(&composer["plan"]))
        .map(str::to_owned)
}

/// The changed files, as the composer and the agent name them.
fn files(composer: &Json, of_agent: Vec<String>) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    let created = items(&composer["newlyCreatedFiles"]).iter().filter_map(attachments::name_of);
    let by_uri = ["originalFileStates", "codeBlockData"]
        .into_iter()
        .flat_map(|name| composer[name].as_object().into_iter().flatten())
        .map(|(uri, _)| workspace_of_uri(uri).map_or_else(|| uri.clone(), |place| place.path));
    for file in created.chain(by_uri).chain(of_agent) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}
