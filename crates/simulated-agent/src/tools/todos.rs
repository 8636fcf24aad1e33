//! The todo list of a session. It is in memory here; the session's store keeps it for the next process.

use std::sync::{Arc, Mutex};

pub use cursor_stores::chat::schema::TodoStatus;
use ground::now_ms;
use serde_json::{Value, json};

use super::{PreparedCall, ToolEnvironment, ToolRun};
use crate::process::lock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoItem {
    pub id: String,
    pub content: String,
    pub status: TodoStatus,
}

/// Every status, with the model's name for it.
const STATUSES: [(TodoStatus, &str); 4] = [
    (TodoStatus::Pending, "pending"),
    (TodoStatus::InProgress, "in_progress"),
    (TodoStatus::Completed, "completed"),
    (TodoStatus::Cancelled, "cancelled"),
];

fn model_name(status: TodoStatus) -> &'static str {
    STATUSES.iter().find(|(known, _)| *known == status).map_or("pending", |(_, name)| name)
}

/// Returns the status with this name in the stream.
pub(crate) fn status_of(stream_name: &str) -> TodoStatus {
    let is_it = |(_, name): &&(TodoStatus, &str)| as_in_stream(name) == stream_name;
    STATUSES.iter().find(is_it).map_or(TodoStatus::Unspecified, |(status, _)| *status)
}

fn as_in_stream(model_name: &str) -> String {
    format!("TODO_STATUS_{}", model_name.to_ascii_uppercase())
}

/// The fate of items that an update does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoUpdate {
    Replace,
    Merge,
}

/// The current list. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct TodoList {
    items: Arc<Mutex<Vec<TodoItem>>>,
}

impl TodoList {
    /// Starts with the items of an earlier run.
    pub fn new(items: Vec<TodoItem>) -> Self {
        Self { items: Arc::new(Mutex::new(items)) }
    }

    pub fn items(&self) -> Vec<TodoItem> {
        lock(&self.items).clone()
    }

    fn update(&self, items: &[TodoItem], update: TodoUpdate) -> Vec<TodoItem> {
        let mut list = lock(&self.items);
        if update == TodoUpdate::Replace {
            list.clear();
        }
        for item in items {
            match list.iter_mut().find(|listed| listed.id == item.id) {
                Some(listed) => listed.clone_from(item),
                None => list.push(item.clone()),
            }
        }
        list.clone()
    }
}

pub(super) fn prepare_update(items: &[TodoItem], update: TodoUpdate) -> PreparedCall {
    let merge = update == TodoUpdate::Merge;
    let for_model = items.iter().map(
        |item| json!({"id": item.id, "content": item.content, "status": model_name(item.status)}),
    );
    let model_args = json!({"todos": for_model.collect::<Vec<_>>(), "merge": merge});
    PreparedCall::new(
        "updateTodosToolCall",
        "TodoWrite",
        json!({"todos": shown(items), "merge": merge}),
        model_args,
    )
}

pub(super) fn prepare_read() -> PreparedCall {
    PreparedCall::new(
        "readTodosToolCall",
        "TodoRead",
        json!({"statusFilter": [], "idFilter": []}),
        json!({}),
    )
}

pub(super) fn update(
    items: &[TodoItem],
    update: TodoUpdate,
    environment: &ToolEnvironment,
) -> ToolRun {
    success(&environment.todos.update(items, update), "Updated the todo list.\n")
}

pub(super) fn read(environment: &ToolEnvironment) -> ToolRun {
    success(&environment.todos.items(), "")
}

fn success(items: &[TodoItem], title: &str) -> ToolRun {
    let lines = items
        .iter()
        .map(|item| format!("- [{}] {} ({})\n", model_name(item.status), item.content, item.id));
    let for_model = title.to_owned() + &lines.collect::<String>();
    ToolRun::success(json!({"todos": shown(items), "totalCount": items.len()}), for_model)
}

fn shown(items: &[TodoItem]) -> Vec<Value> {
    // 64-bit numbers are strings in protobuf's JSON.
    let now = now_ms().to_string();
    let shown = items.iter().map(|item| {
        json!({
            "id": item.id,
            "content": item.content,
            "status": as_in_stream(model_name(item.status)),
            "createdAt": now,
            "updatedAt": now,
            "dependencies": [],
        })
    });
    shown.collect()
}

#[cfg(test)]
#[path = "todos_tests.rs"]
mod tests;
