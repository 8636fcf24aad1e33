//! What a state keeps beside the messages: todos, the plan, the files, and which calls became sub-agents.

use std::collections::{BTreeMap, BTreeSet};

use super::blobs::Blobs;
use super::integrity::BearsOn;
use super::notes::Notes;
use super::schema::{
    ConversationPlan, ConversationStateStructure, SubagentRunStatus, TodoItem, TodoStatus,
};
use crate::model::{Conversation, Part, Todo, TodoState, ToolCall, ToolState};

/// Adds all of it.
pub(super) fn add_side_state(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
    conversation: &mut Conversation,
    notes: &mut Notes,
) -> rusqlite::Result<()> {
    for (index, id) in state.todos.iter().enumerate() {
        let place = || format!("todos[{index}]");
        if let Some(item) = decode::<TodoItem>(blobs, id, &place, notes)? {
            let state = todo_state(item.status());
            conversation.todos.push(Todo { text: item.content, state });
        }
    }
    if let Some(id) = state.plan.as_deref().filter(|id| !id.is_empty()) {
        let plan = decode::<ConversationPlan>(blobs, id, &|| "plan".to_owned(), notes)?;
        conversation.plan = plan.map(|plan| plan.plan).filter(|plan| !plan.is_empty());
    }
    let files: BTreeSet<&String> =
        state.file_states.keys().chain(state.file_states_v2.keys()).collect();
    conversation.files = files.into_iter().cloned().collect();
    link_subagents(state, conversation);
    Ok(())
}

fn decode<M: prost::Message + Default>(
    blobs: &Blobs<'_>,
    bytes: &[u8],
    place: &dyn Fn() -> String,
    notes: &mut Notes,
) -> rusqlite::Result<Option<M>> {
    let Some(id) = notes.id(bytes, BearsOn::History, place) else { return Ok(None) };
    let Some(data) = notes.fetch(blobs, id, BearsOn::History, place)? else { return Ok(None) };
    match M::decode(data.as_slice()) {
        Ok(message) => Ok(Some(message)),
        Err(err) => {
            notes.add(BearsOn::History, place(), format!("does not decode: {err}"));
            Ok(None)
        }
    }
}

fn todo_state(status: TodoStatus) -> TodoState {
    match status {
        TodoStatus::Unspecified => TodoState::Unknown,
        TodoStatus::Pending => TodoState::Pending,
        TodoStatus::InProgress => TodoState::InProgress,
        TodoStatus::Completed => TodoState::Completed,
        TodoStatus::Cancelled => TodoState::Cancelled,
    }
}

/// Tells each call which sub-agent it became. Runs are kept by the id of the call; states by that of the sub-agent, or
/// by that of the call.
fn link_subagents(state: &ConversationStateStructure, conversation: &mut Conversation) {
    let runs: BTreeMap<&str, _> = state
        .subagent_runs_by_parent_tool_call_id
        .iter()
        .map(|(call_id, run)| (call_id.as_str(), run))
        .collect();
    for call in calls_of(conversation) {
        let Some(id) = call.id.as_deref() else { continue };
        if let Some(run) = runs.get(id) {
            call.subagent =
                run.subagent_id.clone().filter(|id| !id.is_empty()).or(call.subagent.take());
            if call.result.is_none() {
                call.state = match run.status() {
                    SubagentRunStatus::Running | SubagentRunStatus::Backgrounded => {
                        ToolState::Pending
                    }
                    SubagentRunStatus::Success => ToolState::Succeeded,
                    SubagentRunStatus::Error => ToolState::Failed,
                    SubagentRunStatus::Aborted => ToolState::Cancelled,
                    SubagentRunStatus::Unspecified => call.state,
                };
            }
        }
        let has_state =
            state.subagent_states.contains_key(id) || state.subagent_state_refs.contains_key(id);
        if call.subagent.is_none() && has_state {
            call.subagent = Some(id.to_owned());
        }
    }
}

/// All calls of a conversation.
pub(super) fn calls_of(conversation: &mut Conversation) -> impl Iterator<Item = &mut ToolCall> {
    let parts = conversation.messages.iter_mut().flat_map(|message| &mut message.parts);
    parts.filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}
