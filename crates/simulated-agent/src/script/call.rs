//! The orders that call a tool.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Line, Order, Problem, time};
use crate::tools::{Background, ShellRequest, TodoItem, TodoStatus, TodoUpdate, ToolRequest};

pub(super) const ORDERS: [&str; 14] = [
    "shell", "read", "write", "edit", "grep", "glob", "ls", "delete", "todos", "mcp", "fetch",
    "ask", "plan", "task",
];

/// What captured shell calls have.
const SHELL_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the call a line asks for; none if the line is another kind of order.
pub(super) fn request(line: &Line) -> Result<Option<ToolRequest>, Problem> {
    let Some(order) = ORDERS.into_iter().find(|order| *order == line.word) else {
        return Ok(None);
    };
    check_options(line, order)?;
    Ok(Some(match order {
        "shell" => shell(line)?,
        "read" => ToolRequest::Read { path: path(line)? },
        "write" => {
            let mut content = line.body("a text: write PATH <<END")?.to_owned();
            if !content.is_empty() {
                content.push('\n');
            }
            ToolRequest::Write { path: path_before_text(line)?, content }
        }
        "edit" => edit(line)?,
        "grep" => ToolRequest::Grep {
            pattern: line.argument("a pattern")?,
            path: line.option("path").unwrap_or(".").into(),
        },
        "glob" => ToolRequest::Glob { pattern: line.argument("a pattern")? },
        "ls" if line.rest.is_empty() => ToolRequest::Ls { path: ".".into() },
        "ls" => ToolRequest::Ls { path: path(line)? },
        "delete" => ToolRequest::Delete { path: path(line)? },
        "todos" => todos(line)?,
        "mcp" => mcp(line)?,
        "fetch" => ToolRequest::WebFetch { url: line.argument("an address")? },
        "ask" => ToolRequest::AskQuestion { question: line.text("a question")? },
        "plan" => ToolRequest::CreatePlan { plan: line.text("a plan")? },
        _ => task(line)?,
    }))
}

fn check_options(line: &Line, order: &str) -> Result<(), Problem> {
    let known: &[&str] = match order {
        "shell" => &["timeout", "background", "description"],
        "grep" => &["path"],
        _ => &[],
    };
    match line.options.iter().find(|(option, _)| !known.contains(&option.as_str())) {
        Some((option, _)) => {
            Err(Problem::UnknownOption { order: order.to_owned(), option: option.clone() })
        }
        None => Ok(()),
    }
}

fn shell(line: &Line) -> Result<ToolRequest, Problem> {
    let command = line.text("a command")?;
    let described = line.option("description").map(str::to_owned);
    Ok(ToolRequest::Shell(ShellRequest {
        timeout: line.option("timeout").map_or(Ok(SHELL_TIMEOUT), time)?,
        background: match line.option("background") {
            Some(_) => Background::Yes,
            None => Background::No,
        },
        description: described
            .unwrap_or_else(|| format!("Runs {}", command.lines().next().unwrap_or_default())),
        command,
    }))
}

fn edit(line: &Line) -> Result<ToolRequest, Problem> {
    let body = line.body("a text: edit PATH <<END")?;
    let parts: Vec<&str> = body.split('\n').collect();
    let separators: Vec<usize> =
        (0..parts.len()).filter(|index| parts[*index].trim_end() == "===").collect();
    let [separator] = separators[..] else { return Err(Problem::NoSeparator) };
    Ok(ToolRequest::Edit {
        path: path_before_text(line)?,
        old: parts[..separator].join("\n"),
        new: parts[separator + 1..].join("\n"),
    })
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
    let bad = || Problem::BadTodo(text.to_owned());
    let (mark, content) = text.split_once(']').ok_or_else(bad)?;
    let status = match mark {
        "[ " | "[" => TodoStatus::Pending,
        "[>" => TodoStatus::InProgress,
        "[x" => TodoStatus::Completed,
        "[-" => TodoStatus::Cancelled,
        _ => return Err(bad()),
    };
    Ok(TodoItem { id: (index + 1).to_string(), content: content.trim().to_owned(), status })
}

fn mcp(line: &Line) -> Result<ToolRequest, Problem> {
    const USAGE: &str = "a server, a tool and perhaps a JSON object";
    let missing = || Problem::Missing { order: line.word.clone(), what: USAGE };
    let (server, rest) = line.rest.split_once(' ').ok_or_else(missing)?;
    let (tool, json) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let json = line.body.as_deref().unwrap_or(json).trim();
    let args: Map<String, Value> = match json {
        "" => Map::new(),
        json => serde_json::from_str(json)
            .map_err(|err| Problem::BadJson(json.to_owned(), err.to_string()))?,
    };
    Ok(ToolRequest::Mcp { server: server.to_owned(), tool: tool.to_owned(), args })
}

/// `until[text="done" count=3] SERVER TOOL {json}`.
pub(super) fn until(line: &Line) -> Result<Order, Problem> {
    let known = ["text", "count"];
    if let Some((option, _)) = line.options.iter().find(|(name, _)| !known.contains(&name.as_str()))
    {
        let order = line.word.clone();
        return Err(Problem::UnknownOption { order, option: option.clone() });
    }
    let text = line.option("text").filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Problem::Missing {
        order: line.word.clone(),
        what: "a text to wait for: until[text=\"…\"]",
    })?;
    let count = line.option("count").unwrap_or("1");
    let bad = || Problem::BadCount(count.to_owned());
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(bad)?;
    Ok(Order::Until { text: text.to_owned(), count, request: mcp(line)? })
}

fn task(line: &Line) -> Result<ToolRequest, Problem> {
    let missing = || Problem::Missing {
        order: line.word.clone(),
        what: "a description, a colon and a prompt",
    };
    let text = line.text("a description, a colon and a prompt")?;
    let (description, prompt) = text.split_once(':').ok_or_else(missing)?;
    let (description, prompt) = (description.trim().to_owned(), prompt.trim().to_owned());
    Ok(ToolRequest::Task { description, prompt })
}

fn path(line: &Line) -> Result<PathBuf, Problem> {
    line.argument("a path").map(PathBuf::from)
}

/// The path of an order that has a text below it as well.
fn path_before_text(line: &Line) -> Result<PathBuf, Problem> {
    match line.rest.as_str() {
        "" => Err(Problem::Missing { order: line.word.clone(), what: "a path" }),
        path => Ok(path.into()),
    }
}
