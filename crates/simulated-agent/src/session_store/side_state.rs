//! A tool's traces in the root besides messages: files read and changed, and the todo list.

use cursor_stores::chat::WritableStore;
use cursor_stores::chat::schema::{ConversationStateStructure, TodoItem, TodoStatus};
use prost::Message;
use rusqlite::Result;
use serde_json::Value;

use super::records::ToolCallRecord;
use super::restore::ids;
use crate::tools::{self, Generation};

/// Notes the effects of a successful call, and writes the blobs for them.
pub(super) fn note(
    root: &mut ConversationStateStructure,
    database: &WritableStore,
    generation: Generation,
    call: &ToolCallRecord,
    result: &Value,
) -> Result<()> {
    let Some(success) = result.get("success") else { return Ok(()) };
    match (call.key.as_str(), generation) {
        ("updateTodosToolCall", _) => note_todos(root, database, success),
        // Early builds tracked no files.
        (_, Generation::V2026_01) => Ok(()),
        ("readToolCall", _) => {
            note_read(root, call);
            Ok(())
        }
        ("editToolCall", _) => note_edit(root, database, success),
        _ => Ok(()),
    }
}

fn note_read(root: &mut ConversationStateStructure, call: &ToolCallRecord) {
    if let Some(path) = call.args.get("path").and_then(Value::as_str)
        && !root.read_paths.iter().any(|known| known == path)
    {
        root.read_paths.push(path.to_owned());
    }
}

/// Keeps the first content of a file and the newest one, as blobs of plain text.
fn note_edit(
    root: &mut ConversationStateStructure,
    database: &WritableStore,
    success: &Value,
) -> Result<()> {
    let text = |key: &str| success.get(key).and_then(Value::as_str);
    let (Some(path), Some(after)) = (text("path"), text("afterFullFileContent")) else {
        return Ok(());
    };
    let state = root.file_states_v2.entry(path.to_owned()).or_default();
    if state.content.is_none()
        && let Some(before) = text("beforeFullFileContent")
    {
        state.initial_content = Some(database.put(before.as_bytes())?.to_vec());
    }
    state.content = Some(database.put(after.as_bytes())?.to_vec());
    Ok(())
}

fn note_todos(
    root: &mut ConversationStateStructure,
    database: &WritableStore,
    success: &Value,
) -> Result<()> {
    let Some(todos) = success.get("todos").and_then(Value::as_array) else { return Ok(()) };
    let ids: Result<Vec<_>> = todos
        .iter()
        .map(|todo| Ok(database.put(&todo_item(todo).encode_to_vec())?.to_vec()))
        .collect();
    root.todos = ids?;
    Ok(())
}

/// Reads the list back. Like Cursor, skips an unreadable item.
pub(super) fn todos(
    root: &ConversationStateStructure,
    database: &WritableStore,
) -> Vec<tools::TodoItem> {
    let items = ids(&root.todos)
        .filter_map(|id| database.blob(id).ok()?)
        .filter_map(|data| TodoItem::decode(data.as_slice()).ok());
    let items = items.map(|item| tools::TodoItem {
        status: match item.status() {
            TodoStatus::Unspecified => TodoStatus::Pending,
            status => status,
        },
        id: item.id,
        content: item.content,
    });
    items.collect()
}

fn todo_item(todo: &Value) -> TodoItem {
    let text = |key: &str| todo.get(key).and_then(Value::as_str).unwrap_or_default();
    // In protobuf's JSON, 64-bit numbers are strings.
    let time = |key: &str| {
        todo.get(key).and_then(Value::as_i64).or_else(|| text(key).parse().ok()).unwrap_or_default()
    };
    let dependencies = todo.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    TodoItem {
        id: text("id").to_owned(),
        content: text("content").to_owned(),
        status: tools::status_of(text("status")).into(),
        created_at: time("createdAt"),
        updated_at: time("updatedAt"),
        dependencies: dependencies.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
#[path = "side_state_tests.rs"]
mod tests;
