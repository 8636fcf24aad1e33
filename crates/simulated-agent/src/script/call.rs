//! The orders that call a tool.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::line::Line;
use super::{Order, Problem, time};
use crate::tools::{Background, ShellRequest, TodoItem, TodoStatus, TodoUpdate, ToolRequest};

pub(super) const ORDERS: [&str; 14] = [
    "shell", "read", "write", "edit", "grep", "glob", "ls", "delete", "todos", "mcp", "fetch",
    "ask", "plan", "task",
];

/// The timeout of captured shell calls.
const SHELL_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the call that a line asks for, or `None` if the line is another kind of order.
pub(super) fn request(line: &Line) -> Result<Option<ToolRequest>, Problem> {
    let Some(order) = ORDERS.into_iter().find(|order| *order == line.word) else {
        return Ok(None);
    };
    line.has_no_options_but(match order {
        "shell" => &["timeout", "background", "description"],
        "grep" => &["path"],
        _ => &[],
    })?;
    let path = || line.argument("a path").map(PathBuf::from);
    Ok(Some(match order {
        "shell" => shell(line)?,
        "read" => ToolRequest::Read { path: path()? },
        "write" => {
            let mut content = line.body("a text: write PATH <<END")?.to_owned();
            if !content.is_empty() {
                content.push('\n');
            }
            ToolRequest::Write { path: path_above_text(line)?, content }
        }
        "edit" => edit(line)?,
        "grep" => ToolRequest::Grep {
            pattern: line.argument("a pattern")?,
            path: line.option("path").unwrap_or(".").into(),
        },
        "glob" => ToolRequest::Glob { pattern: line.argument("a pattern")? },
        "ls" if line.rest.is_empty() => ToolRequest::Ls { path: ".".into() },
        "ls" => ToolRequest::Ls { path: path()? },
        "delete" => ToolRequest::Delete { path: path()? },
        "todos" => todos(line)?,
        "mcp" => mcp(line)?,
        "fetch" => ToolRequest::WebFetch { url: line.argument("an address")? },
        "ask" => ToolRequest::AskQuestion { question: line.text("a question")? },
        "plan" => ToolRequest::CreatePlan { plan: line.text("a plan")? },
        _ => task(line)?,
    }))
}

fn shell(line: &Line) -> Result<ToolRequest, Problem> {
    let command = line.text("a command")?;
    let description = line.option("description").map_or_else(
        || format!("Runs {}", command.lines().next().unwrap_or_default()),
        str::to_owned,
    );
    let timeout = line.option("timeout").map_or(Ok(SHELL_TIMEOUT), time)?;
    let background = match line.option("background") {
        Some(_) => Background::Yes,
        None => Background::No,
    };
    Ok(ToolRequest::Shell(ShellRequest { command, timeout, background, description }))
}

fn edit(line: &Line) -> Result<ToolRequest, Problem> {
    let body = line.body("a text: edit PATH <<END")?;
    let parts: Vec<&str> = body.split('\n').collect();
    let halves: Vec<&[&str]> = parts.split(|part| part.trim_end() == "===").collect();
    let [old, new] = halves[..] else {
        return Err("an edit has one line `===` between the old text and the new".to_owned());
    };
    let path = path_above_text(line)?;
    Ok(ToolRequest::Edit { path, old: old.join("\n"), new: new.join("\n") })
}

fn todos(line: &Line) -> Result<ToolRequest, Problem> {
    let Some(body) = &line.body else {
        return line.nothing_more().map(|()| ToolRequest::ReadTodos);
    };
    let lines = body.lines().map(str::trim).filter(|text| !text.is_empty());
    let items =
        lines.enumerate().map(|(index, text)| todo(index, text)).collect::<Result<_, _>>()?;
    Ok(ToolRequest::UpdateTodos { items, update: TodoUpdate::Replace })
}

fn todo(index: usize, text: &str) -> Result<TodoItem, Problem> {
    let (mark, content) = text.split_once(']').unwrap_or_default();
    let status = match mark {
        "[ " | "[" => TodoStatus::Pending,
        "[>" => TodoStatus::InProgress,
        "[x" => TodoStatus::Completed,
        "[-" => TodoStatus::Cancelled,
        _ => {
            let forms = "`[ ] later`, `[>] now`, `[x] done` or `[-] dropped`";
            return Err(format!("`{text}` is not a to-do such as {forms}"));
        }
    };
    Ok(TodoItem { id: (index + 1).to_string(), content: content.trim().to_owned(), status })
}

fn mcp(line: &Line) -> Result<ToolRequest, Problem> {
    let missing = || line.needs("a server, a tool and optionally a JSON object");
    let (server, rest) = line.rest.split_once(' ').ok_or_else(missing)?;
    let (tool, json) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let args: Map<String, Value> = match line.body.as_deref().unwrap_or(json).trim() {
        "" => Map::new(),
        json => serde_json::from_str(json)
            .map_err(|err| format!("`{json}` is not a JSON object: {err}"))?,
    };
    Ok(ToolRequest::Mcp { server: server.to_owned(), tool: tool.to_owned(), args })
}

/// `until[text="done" count=3] SERVER TOOL {json}`.
pub(super) fn until(line: &Line) -> Result<Order, Problem> {
    line.has_no_options_but(&["text", "count"])?;
    let text = line.option("text").filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| line.needs("a text to wait for: until[text=\"…\"]"))?;
    let count = line.option("count").unwrap_or("1");
    let bad = || format!("`{count}` is not a number of at least 1");
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(bad)?;
    Ok(Order::Until { text: text.to_owned(), count, request: mcp(line)? })
}

fn task(line: &Line) -> Result<ToolRequest, Problem> {
    const USAGE: &str = "a description, a colon and a prompt";
    let text = line.text(USAGE)?;
    let (description, prompt) = text.split_once(':').ok_or_else(|| line.needs(USAGE))?;
    let (description, prompt) = (description.trim().to_owned(), prompt.trim().to_owned());
    Ok(ToolRequest::Task { description, prompt })
}

fn path_above_text(line: &Line) -> Result<PathBuf, Problem> {
    match line.rest.as_str() {
        "" => Err(line.needs("a path")),
        path => Ok(path.into()),
    }
}
