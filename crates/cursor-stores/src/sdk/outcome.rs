//! What the tool calls of a conversation have made, as far as they say it.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::fields::words;
use crate::model::{Message, Todo, TodoState, ToolCall, ToolState};

/// The todo list as the last call left it.
pub(super) fn last_todos(messages: &[Message]) -> Vec<Todo> {
    let lists = calls_of(messages, "todo").filter_map(|call| {
        let output = call.result.as_ref().map(|result| &result.output);
        [output, Some(&call.input)]
            .into_iter()
            .flatten()
            .find_map(|holder| holder.get("todos")?.as_array())
    });
    let todos = lists.last().map(Vec::as_slice).unwrap_or_default();
    todos.iter().filter_map(todo).collect()
}

/// The plan that was written last.
pub(super) fn last_plan(messages: &[Message]) -> Option<String> {
    calls_of(messages, "plan").filter_map(|call| words(call.input.get("plan"))).last()
}

/// The files that calls say they changed, each once.
pub(super) fn changed_files(messages: &[Message]) -> Vec<String> {
    let mut seen = HashSet::new();
    let changing = messages.iter().flat_map(Message::tool_calls).filter(|call| {
        call.state == ToolState::Succeeded
            && ["edit", "write", "delete"].contains(&call.tool.as_str())
    });
    changing
        .filter_map(|call| call.input.get("path")?.as_str())
        .filter(|path| seen.insert(*path))
        .map(str::to_owned)
        .collect()
}

fn calls_of<'a>(messages: &'a [Message], tool: &'a str) -> impl Iterator<Item = &'a ToolCall> {
    messages.iter().flat_map(Message::tool_calls).filter(move |call| call.tool == tool)
}

fn todo(todo: &Json) -> Option<Todo> {
    let state: String = todo["status"]
        .as_str()
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Some(Todo {
        text: words(todo.get("content"))?,
        state: match state.as_str() {
            "pending" => TodoState::Pending,
            "inprogress" => TodoState::InProgress,
            "completed" => TodoState::Completed,
            "cancelled" => TodoState::Cancelled,
            _ => TodoState::Unknown,
        },
    })
}
