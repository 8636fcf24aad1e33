//! A conversation as Markdown, readable as text and in any viewer.

use std::io::{self, Write};

use cursor_stores::model::{Conversation, Message, Part, Todo, ToolCall, ToolResult};
use serde_json::Value as Json;

use super::facts::{self, Facts};
use super::fields::{self, Field, FieldValue};
use super::harmless_markdown::{code, fenced, harmless, plain, quoted};

pub(super) fn write(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# {}\n", plain(&facts::title(&conversation.head)))?;
    let Facts { first, more } = facts::facts(conversation);
    for (name, value) in first.into_iter().chain(more) {
        writeln!(out, "- {name}: {}", plain(&value))?;
    }
    if !conversation.damage.is_empty() {
        writeln!(out, "\n**Incomplete:**\n")?;
        for damage in &conversation.damage {
            writeln!(out, "- {}: {}", plain(&damage.place), plain(&damage.what))?;
        }
    }
    for message in &conversation.messages {
        write_message(message, out)?;
    }
    write_appendix(conversation, out)
}

fn write_message(message: &Message, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n## {}", facts::speaker(message))?;
    let mut notes = facts::message_notes(message);
    notes.extend(message.id.clone());
    let notes: Vec<String> = notes.iter().map(|note| plain(note)).collect();
    if !notes.is_empty() {
        writeln!(out, "\n*{}*", notes.join(" · "))?;
    }
    let mut place = Place::Message;
    for part in message.parts.iter().filter(|part| !facts::is_blank(part)) {
        let begins = Place::begun_by(part);
        if begins == Place::Message && place == Place::Section {
            writeln!(out, "\n### {}", facts::speaker(message))?;
        }
        place = begins;
        write_part(part, out)?;
    }
    Ok(())
}

/// The current heading. Text after a tool call needs a new one, so that it does not look like part of the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Message,
    Section,
}

impl Place {
    fn begun_by(part: &Part) -> Self {
        match part {
            Part::ToolCall(_)
            | Part::ToolResult { .. }
            | Part::Error { .. }
            | Part::Unknown { .. } => Self::Section,
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Image { .. }
            | Part::Attachment { .. }
            | Part::Code { .. }
            | Part::Todos { .. } => Self::Message,
        }
    }
}

fn write_part(part: &Part, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    match part {
        Part::Text { text } => writeln!(out, "{}", harmless(text)),
        Part::Reasoning { text, duration_ms, is_redacted } => {
            let redacted = if *is_redacted { " (redacted)" } else { "" };
            let caption = format!("*{}{redacted}*", facts::thinking(*duration_ms));
            writeln!(out, "{}", quoted(&format!("{caption}\n\n{}", harmless(text))))
        }
        Part::ToolCall(call) => write_tool_call(call, out),
        Part::ToolResult { call_id, tool_name, result } => {
            let name = tool_name.as_deref().unwrap_or("a tool");
            writeln!(out, "### Result of {}", plain(name))?;
            if let Some(id) = call_id {
                writeln!(out, "\n- Call: {}", code(id))?;
            }
            write_result(result, out)
        }
        Part::Image { media_type, path, n_bytes } => {
            let text = facts::image(media_type.as_deref(), path.as_deref(), *n_bytes);
            writeln!(out, "*Picture: {}*", plain(&text))
        }
        Part::Attachment { kind, name, text } => {
            let name = name.as_ref().map_or_else(String::new, |name| format!(" {}", code(name)));
            writeln!(out, "*Attached: {}*{name}", plain(kind))?;
            text.as_ref().map_or(Ok(()), |text| writeln!(out, "\n{}", fenced("", text)))
        }
        Part::Code { language, path, text } => {
            if let Some(path) = path {
                writeln!(out, "{}\n", code(path))?;
            }
            writeln!(out, "{}", fenced(language.as_deref().unwrap_or_default(), text))
        }
        Part::Todos { todos } => write_todos(todos, out),
        Part::Error { text } => writeln!(out, "### Error\n\n{}", fenced("", text)),
        Part::Unknown { kind, value } => {
            writeln!(out, "### {} (unknown kind)", plain(kind))?;
            write_fields(value, out)
        }
    }
}

fn write_tool_call(call: &ToolCall, out: &mut dyn Write) -> io::Result<()> {
    let subject = facts::tool_subject(call)
        .map_or_else(String::new, |subject| format!(" {}", code(&subject)));
    let outcome = facts::tool_outcome(call);
    writeln!(out, "### {}{subject} ({outcome})", plain(facts::tool(call)))?;
    let notes = facts::tool_notes(call);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for (name, value) in notes {
        writeln!(out, "- {name}: {}", code(&value))?;
    }
    if !call.input.is_null() {
        writeln!(out, "\n**Input**")?;
        write_fields(&call.input, out)?;
    }
    match &call.result {
        Some(result) => {
            writeln!(out, "\n**Result**")?;
            write_result(result, out)
        }
        None => Ok(()),
    }
}

fn write_result(result: &ToolResult, out: &mut dyn Write) -> io::Result<()> {
    if let Some(error) = &result.error {
        writeln!(out, "\nError:\n\n{}", fenced("", error))?;
    }
    write_fields(&result.output, out)?;
    if result.is_truncated {
        writeln!(out, "\n*The store kept only a part.*")?;
    }
    if result.output.is_null() && result.error.is_none() {
        writeln!(out, "\n*Empty.*")?;
    }
    Ok(())
}

fn write_fields(value: &Json, out: &mut dyn Write) -> io::Result<()> {
    let fields = fields::fields(value);
    let mut is_first = true;
    for Field { name, value, .. } in &fields {
        let FieldValue::Short(text) = value else { continue };
        if std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        if name.is_empty() {
            writeln!(out, "{}", code(text))?;
        } else {
            writeln!(out, "- {}: {}", code(name), code(text))?;
        }
    }
    for Field { name, value, .. } in &fields {
        let (language, text) = match value {
            FieldValue::Short(_) => continue,
            FieldValue::Text(text) => ("", text),
            FieldValue::Json(text) => ("json", text),
        };
        if !name.is_empty() {
            writeln!(out, "\n{}:", code(name))?;
        }
        writeln!(out, "\n{}", fenced(language, text))?;
    }
    Ok(())
}

fn write_todos(todos: &[Todo], out: &mut dyn Write) -> io::Result<()> {
    todos.iter().try_for_each(|todo| {
        writeln!(out, "- {} {}", facts::todo_mark(todo.state), plain(&todo.text))
    })
}

fn write_appendix(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    if !conversation.head.pending.is_empty() {
        writeln!(out, "\n## Pending tool calls")?;
        for pending in &conversation.head.pending {
            writeln!(out)?;
            write_tool_call(&facts::pending_call(pending), out)?;
        }
    }
    if !conversation.todos.is_empty() {
        writeln!(out, "\n## Todo list\n")?;
        write_todos(&conversation.todos, out)?;
    }
    if let Some(plan) = &conversation.plan {
        writeln!(out, "\n## Plan\n\n{}", harmless(plan))?;
    }
    if !conversation.files.is_empty() {
        writeln!(out, "\n## Changed files\n")?;
        conversation.files.iter().try_for_each(|file| writeln!(out, "- {}", code(file)))?;
    }
    if !conversation.turns.is_empty() {
        writeln!(out, "\n## Turns\n")?;
        let turns = conversation.turns.iter().enumerate();
        turns
            .map(|(n, turn)| (n + 1, facts::turn(turn)))
            .try_for_each(|(number, turn)| writeln!(out, "{number}. {}", plain(&turn)))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
