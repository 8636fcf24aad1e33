//! The state next to the messages: to-dos, the plan, the files, and the sub-agents that calls started.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::{BearsOn, Notes};
use crate::chat::schema::{
    ConversationPlan, ConversationStateStructure, SubagentRunStatus, TodoItem, TodoStatus,
};
use crate::chat::store::Blobs;
use crate::model::{Conversation, Part, Todo, TodoState, ToolCall, ToolState};

pub(crate) fn add_side_state(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
    conversation: &mut Conversation,
    notes: &mut Notes,
) -> rusqlite::Result<()> {
    for (index, id) in state.todos.iter().enumerate() {
        let place = || format!("todos[{index}]");
        let item = notes.decode::<TodoItem>(blobs, id, BearsOn::History, &place)?;
        if let Some((_, item)) = item {
            let state = todo_state(item.status());
            conversation.todos.push(Todo { text: item.content, state });
        }
    }
    if let Some(id) = state.plan.as_deref().filter(|id| !id.is_empty()) {
        let place = || "plan".to_owned();
        let plan = notes.decode::<ConversationPlan>(blobs, id, BearsOn::History, &place)?;
        conversation.plan = plan.map(|(_, plan)| plan.plan).filter(|plan| !plan.is_empty());
    }
    let files: BTreeSet<&String> =
        state.file_states.keys().chain(state.file_states_v2.keys()).collect();
    conversation.files = files.into_iter().cloned().collect();
    link_subagents(state, conversation);
    Ok(())
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

/// Links each call to the sub-agent that it started. Runs are keyed by the call's id, states by the sub-agent's id or
/// the call's id.
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

pub(crate) fn calls_of(conversation: &mut Conversation) -> impl Iterator<Item = &mut ToolCall> {
    let parts = conversation.messages.iter_mut().flat_map(|message| &mut message.parts);
    parts.filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}
