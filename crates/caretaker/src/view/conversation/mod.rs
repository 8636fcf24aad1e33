//! Prints a conversation.

mod markdown_lines;
mod message_view;
pub(crate) mod stats_view;
mod tool_call_view;

pub(crate) use message_view::{Folding, MessageView};

use std::io::{self, Write};

use agent_stream::tool_subject;
use cursor_stores::model::{
    Conversation, Head, Part, TodoState, TokenUsage, TurnState, display_model,
};

use crate::commands::sessions::ls::{state, stores, workspace};
use crate::view::fact_rows::{NAMES, moment, row};
use crate::view::styled_line::{BOLD, DIM, ODD};
use admission::words::safe_text::on_one_line;
use admission::words::units;

/// More files or plan lines would push the conversation off the screen.
const MOST_FILES: usize = 5;
const MOST_PLAN_LINES: usize = 8;
/// Shows at most this many problems; `--json` has all of them.
const MOST_PROBLEMS: usize = 10;

/// Prints the facts about a conversation, then its messages.
pub(crate) fn print(
    out: &mut dyn Write,
    conversation: &Conversation,
    folding: Folding,
) -> io::Result<()> {
    print_head(out, &conversation.head)?;
    let also: Vec<String> = conversation
        .also_kept
        .iter()
        .map(|(name, count)| format!("{} {name}", units::grouped(*count)))
        .collect();
    row(out, "also kept", &also.join(", "))?;
    row(out, "files", &files_in_words(&conversation.files, folding))?;
    for damage in conversation.damage.iter().take(MOST_PROBLEMS) {
        let text = format!("{}: {}", damage.place, damage.what);
        writeln!(out, "{ODD}{:<NAMES$}{}{ODD:#}", "damage", on_one_line(&text))?;
    }
    let n_more = conversation.damage.len().saturating_sub(MOST_PROBLEMS);
    if n_more > 0 {
        row(out, "damage", &format!("and {n_more} more; --json has all"))?;
    }
    print_messages(out, conversation, folding)?;
    print_plan(out, conversation, folding)?;
    print_todos(out, conversation)
}

/// The names of changed files, shortened.
fn files_in_words(files: &[String], folding: Folding) -> String {
    let n_named = if folding == Folding::Open { files.len() } else { MOST_FILES };
    let mut names = files.iter().take(n_named).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > n_named {
        names += &format!(" and {} more; --full names all", files.len() - n_named);
    }
    names
}

/// The messages, with the outcome of each turn after them. If the caller read only the last messages, earlier turns
/// appear only if they failed.
fn print_messages(
    out: &mut dyn Write,
    conversation: &Conversation,
    folding: Folding,
) -> io::Result<()> {
    let mut view = MessageView::new(folding);
    let mut n_told = 0;
    for message in &conversation.messages {
        let turn = message.turn.unwrap_or(n_told).min(conversation.turns.len());
        while n_told < turn {
            print_outcome(out, conversation, n_told, &mut view)?;
            n_told += 1;
        }
        view.print(out, message)?;
    }
    (n_told..conversation.turns.len())
        .try_for_each(|number| print_outcome(out, conversation, number, &mut view))
}

/// The outcome of a turn, if it did not simply finish and no message says why.
fn print_outcome(
    out: &mut dyn Write,
    conversation: &Conversation,
    number: usize,
    view: &mut MessageView,
) -> io::Result<()> {
    let turn = &conversation.turns[number];
    let error = turn.error_in_words();
    let what = match (turn.state, &error) {
        (TurnState::Cancelled, _) => "was cancelled",
        (TurnState::Failed, _) | (_, Some(_)) => "failed",
        _ => return Ok(()),
    };
    let is_said = turn.error.as_ref().is_some_and(|error| {
        conversation
            .messages
            .iter()
            .flat_map(|message| &message.parts)
            .any(|part| matches!(part, Part::Error { text } if text.contains(error.as_str())))
    });
    if is_said {
        return Ok(());
    }
    let why = error.map_or_else(String::new, |error| format!(": {}", on_one_line(&error)));
    view.interrupt();
    writeln!(out, "\n{ODD}turn {} {what}{why}{ODD:#}", number + 1)
}

fn print_plan(
    out: &mut dyn Write,
    conversation: &Conversation,
    folding: Folding,
) -> io::Result<()> {
    let Some(plan) = conversation.plan.as_deref().filter(|plan| !plan.trim().is_empty()) else {
        return Ok(());
    };
    writeln!(out, "\n{DIM}── plan ──{DIM:#}")?;
    let n_shown = if folding == Folding::Open { usize::MAX } else { MOST_PLAN_LINES };
    for line in plan.lines().take(n_shown) {
        writeln!(out, "{}", on_one_line(line))?;
    }
    let n_more = plan.lines().count().saturating_sub(n_shown);
    if n_more > 0 {
        writeln!(
            out,
            "{DIM}… {}{DIM:#}",
            units::counted(n_more as u64, "more line", "more lines")
        )?;
    }
    Ok(())
}

fn print_head(out: &mut dyn Write, head: &Head) -> io::Result<()> {
    if let Some(title) = &head.title {
        writeln!(out, "{BOLD}{}{BOLD:#}", on_one_line(title))?;
    }
    row(out, "session", &head.id)?;
    row(out, "store", &stores(head))?;
    row(out, "state", state(head))?;
    row(out, "workspace", &head.workspace.as_ref().map_or_else(String::new, workspace))?;
    row(out, "created", &head.created.map(|at| moment(at.at_ms)).unwrap_or_default())?;
    row(out, "changed", &head.updated.map(|at| moment(at.at_ms)).unwrap_or_default())?;
    row(out, "mode", head.mode.as_deref().unwrap_or_default())?;
    row(out, "models", &models_in_words(head))?;
    row(out, "tokens", &head.tokens.map(|tokens| tokens_in_words(&tokens)).unwrap_or_default())?;
    if let Some(parent) = &head.parent {
        let kind = parent.type_name.as_deref().unwrap_or("sub-agent");
        row(out, "parent", &format!("{} ({kind})", parent.id))?;
    }
    row(out, "sub-agents", &head.subagents.join(", "))?;
    for call in &head.pending {
        let text = format!("{} {}", call.name, tool_subject(&call.input));
        row(out, "pending", &format!("{} (interrupted; it may have had effects)", text.trim()))?;
    }
    for origin in &head.origins {
        row(out, "file", &origin.path.0.display().to_string())?;
    }
    Ok(())
}

fn print_todos(out: &mut dyn Write, conversation: &Conversation) -> io::Result<()> {
    if conversation.todos.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{DIM}── todos ──{DIM:#}")?;
    for todo in &conversation.todos {
        let mark = match todo.state {
            TodoState::Completed => "✓",
            TodoState::InProgress => "◐",
            TodoState::Cancelled => "✗",
            TodoState::Pending | TodoState::Unknown => "·",
        };
        writeln!(out, "{mark} {}", on_one_line(&todo.text))?;
    }
    Ok(())
}

/// The known token counts.
pub(crate) fn tokens_in_words(tokens: &TokenUsage) -> String {
    let known = [
        (tokens.input, "in"),
        (tokens.output, "out"),
        (tokens.cache_read, "read from cache"),
        (tokens.cache_write, "written to cache"),
        (tokens.reasoning, "of the output tokens for reasoning"),
    ];
    let mut words: Vec<String> = known
        .into_iter()
        .filter_map(|(count, what)| Some(format!("{} {what}", units::grouped(count?))))
        .collect();
    if let Some(used) = tokens.context_used {
        let limit = tokens
            .context_limit
            .map_or_else(String::new, |limit| format!(" of {}", units::grouped(limit)));
        words.push(format!("context {}{limit}", units::grouped(used)));
    }
    words.join(", ")
}

/// The names of the models, each once: several ids may share a name.
pub(crate) fn models_in_words(head: &Head) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in head.models.iter().map(|id| display_model(id)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
