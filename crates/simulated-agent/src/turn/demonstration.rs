//! The demonstration, played without a script: a short round through the workspace that leaves a file behind.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::script::{Order, Script};
use crate::session_store::{RememberedMessage, Role, SessionMode};
use crate::tools::{Background, ShellRequest, TodoItem, TodoStatus, TodoUpdate, ToolRequest};

const FILE: &str = "caretaker-demo.md";

/// The most entries that the demonstration's file lists.
const MOST_ENTRIES: usize = 50;

const TODOS: [&str; 3] = ["Look around", "Write the inventory", "Check it"];

/// The script for this workspace. Nothing in it needs `--force`. In plan mode the agent plans its note and does not write it.
pub(super) fn script(workspace: &Path, history: &[RememberedMessage], mode: SessionMode) -> Script {
    let entries = entries(workspace);
    let mut orders = vec![
        Order::ModelDelay(Duration::from_millis(120)),
        Order::Pace(Duration::from_millis(3)),
        Order::Think(
            "There is no script, so I will look around, leave a note and check it.".into(),
        ),
        Order::Say(greeting(history)),
        Order::Calls(vec![
            ToolRequest::Ls { path: ".".into() },
            ToolRequest::Glob { pattern: "*".into() },
            todos(1),
        ]),
    ];
    orders.extend(match mode {
        SessionMode::Plan => plan(),
        SessionMode::Agent | SessionMode::Ask => note(&entries),
    });
    Script { orders, generation: None }
}

fn plan() -> Vec<Order> {
    let plan = format!("# Leave a note\n\n1. Write `{FILE}`.\n2. List it.\n3. Read it back.");
    vec![
        Order::Calls(vec![ToolRequest::CreatePlan { plan }]),
        Order::Say("That is the plan; nothing was changed.".into()),
    ]
}

fn note(entries: &[String]) -> Vec<Order> {
    vec![
        Order::Calls(vec![ToolRequest::Write { path: FILE.into(), content: inventory(entries) }]),
        Order::Calls(vec![ToolRequest::Shell(ShellRequest {
            command: format!("ls -l {FILE}"),
            timeout: Duration::from_secs(30),
            background: Background::No,
            description: "Lists the new file".into(),
        })]),
        Order::Calls(vec![ToolRequest::Read { path: FILE.into() }, todos(3)]),
        Order::Say(format!(
            "Done. I listed the workspace ({} entries), wrote `{FILE}`, ran `ls -l {FILE}` and read \
             the file back.",
            entries.len()
        )),
    ]
}

fn greeting(history: &[RememberedMessage]) -> String {
    let last = history.iter().rev().find(|message| message.role == Role::User);
    match last {
        Some(message) => format!(
            "Welcome back. Before this you said: \"{}\" I will look around again.",
            message.text.trim()
        ),
        None => {
            "I am the simulated agent: no model, but real tools. I will look around.".to_owned()
        }
    }
}

fn todos(n_done: usize) -> ToolRequest {
    let items = TODOS.iter().enumerate().map(|(index, content)| TodoItem {
        id: (index + 1).to_string(),
        content: (*content).to_owned(),
        status: match index {
            index if index < n_done => TodoStatus::Completed,
            index if index == n_done => TodoStatus::InProgress,
            _ => TodoStatus::Pending,
        },
    });
    ToolRequest::UpdateTodos { items: items.collect(), update: TodoUpdate::Replace }
}

/// The names in the workspace, directories with a slash, without the demonstration's own file.
fn entries(workspace: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .filter(|name| name != FILE)
        .collect();
    names.sort_unstable();
    names
}

fn inventory(entries: &[String]) -> String {
    let mut text = "# What the simulated agent found here\n\n".to_owned();
    for name in entries.iter().take(MOST_ENTRIES) {
        text.push_str(&format!("- `{name}`\n"));
    }
    match entries.len().saturating_sub(MOST_ENTRIES) {
        0 => {}
        n_more => text.push_str(&format!("- and {n_more} more\n")),
    }
    if entries.is_empty() {
        text.push_str("Nothing yet.\n");
    }
    text
}

#[cfg(test)]
#[path = "demonstration_tests.rs"]
mod tests;
