//! The results of a conversation's tool calls: to-do list, plan and changed files.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::model::{Message, Todo, TodoState, ToolCall, ToolState};
use crate::sdk::records::fields::words;

/// Returns the to-do list after the last call.
pub(crate) fn last_todos(messages: &[Message]) -> Vec<Todo> {
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

/// Returns the latest plan.
pub(crate) fn last_plan(messages: &[Message]) -> Option<String> {
    calls_of(messages, "plan").filter_map(|call| words(call.input.get("plan"))).last()
}

/// Returns the files that calls changed, each once.
pub(crate) fn changed_files(messages: &[Message]) -> Vec<String> {
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
    let state = TodoState::of(todo["status"].as_str().unwrap_or_default());
    Some(Todo { text: words(todo.get("content"))?, state })
}
