//! A conversation as one self-contained page: no script, no request, no font, no external picture.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cursor_stores::model::{
    Conversation, Message, MessageKind, Part, Role, Todo, ToolCall, ToolResult, ToolState,
};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::facts::{self, Facts};
use super::fields::{self, Field, FieldRole, FieldValue};
use super::html_text::{LineEnds, escaped, escaped_line, labelled_code, rendered};

const STYLE: &str = include_str!("page.css");

pub(super) fn write(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    let title = escaped_line(&facts::title(&conversation.head));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        policy()
    )?;
    write_head(conversation, &title, out)?;
    writeln!(out, "<div class=\"columns\">")?;
    write_contents(conversation, out)?;
    writeln!(out, "<main>")?;
    for (position, message) in conversation.messages.iter().enumerate() {
        write_message(position, message, out)?;
    }
    write_appendix(conversation, out)?;
    writeln!(out, "</main>\n</div>\n</body>\n</html>")
}

/// Allows only our own style: even markup that slipped through could not load, send or run anything.
fn policy() -> String {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'")
}

fn write_head(conversation: &Conversation, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let Facts { first, more } = facts::facts(conversation);
    writeln!(out, "<header>\n<h1>{title}</h1>")?;
    write_facts(&first, out)?;
    writeln!(out, "<details><summary>More</summary>")?;
    write_facts(&more, out)?;
    writeln!(out, "</details>")?;
    if !conversation.damage.is_empty() {
        writeln!(out, "<div class=\"damage\" role=\"note\"><strong>Incomplete</strong><ul>")?;
        for damage in &conversation.damage {
            let text = format!("{}: {}", damage.place, damage.what);
            writeln!(out, "<li>{}</li>", escaped_line(&text))?;
        }
        writeln!(out, "</ul></div>")?;
    }
    writeln!(out, "</header>")
}

fn write_facts(facts: &[(&'static str, String)], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<dl>")?;
    for (name, value) in facts {
        writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped_line(value))?;
    }
    writeln!(out, "</dl>")
}

fn write_contents(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    let mut prompts = facts::prompts(conversation).peekable();
    if prompts.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "<nav aria-label=\"Prompts\">\n<h2>Prompts</h2>\n<ol>")?;
    for (position, line) in prompts {
        writeln!(out, "<li><a href=\"#m{position}\">{}</a></li>", escaped_line(&line))?;
    }
    writeln!(out, "</ol>\n</nav>")
}

fn write_message(position: usize, message: &Message, out: &mut dyn Write) -> io::Result<()> {
    let class = match (message.role, message.kind) {
        (Role::User, MessageKind::Said | MessageKind::Pending) => "user",
        (Role::Assistant, MessageKind::Said | MessageKind::Pending) => "assistant",
        (_, MessageKind::Orphan) => "orphan",
        _ => "aside",
    };
    let notes: Vec<String> =
        facts::message_notes(message).iter().map(|note| escaped_line(note)).collect();
    let id = message.id.as_deref().map_or_else(String::new, |id| {
        format!(" <span class=\"notes id\">{}</span>", escaped_line(id))
    });
    let caption = format!(
        "<span class=\"speaker\">{}</span> <span class=\"notes\">{}</span>{id}",
        facts::speaker(message),
        notes.join(" · ")
    );
    writeln!(out, "<article class=\"{class}\" id=\"m{position}\">")?;
    let line_ends = if message.role == Role::User { LineEnds::Stay } else { LineEnds::Flow };
    if facts::is_folded(message) {
        writeln!(out, "<details><summary>{caption}</summary>")?;
        write_parts(&message.parts, line_ends, out)?;
        writeln!(out, "</details>")?;
    } else {
        writeln!(
            out,
            "<h2>{caption}<a class=\"here\" href=\"#m{position}\" aria-label=\"Link to this message\">#</a></h2>"
        )?;
        write_parts(&message.parts, line_ends, out)?;
    }
    writeln!(out, "</article>")
}

fn write_parts(parts: &[Part], line_ends: LineEnds, out: &mut dyn Write) -> io::Result<()> {
    parts
        .iter()
        .filter(|part| !facts::is_blank(part))
        .try_for_each(|part| write_part(part, line_ends, out))
}

fn write_part(part: &Part, line_ends: LineEnds, out: &mut dyn Write) -> io::Result<()> {
    match part {
        Part::Text { text } => {
            writeln!(out, "<div class=\"text\" dir=\"auto\">{}</div>", rendered(text, line_ends))
        }
        Part::Reasoning { text, duration_ms, is_redacted } => {
            let caption = facts::thinking(*duration_ms);
            if text.is_empty() {
                let why = if *is_redacted { " (redacted)" } else { "" };
                return writeln!(out, "<p class=\"note\">{caption}{why}</p>");
            }
            let redacted = if *is_redacted { " (partly redacted)" } else { "" };
            let text = rendered(text, LineEnds::Stay);
            writeln!(
                out,
                "<details class=\"thinking\"><summary>{caption}{redacted}</summary><div class=\"text\" dir=\"auto\">{text}</div></details>"
            )
        }
        Part::ToolCall(call) => write_tool_call(call, out),
        Part::ToolResult { call_id, tool_name, result } => {
            let name = tool_name.as_deref().unwrap_or("a tool");
            let id = call_id.as_deref().unwrap_or_default();
            writeln!(
                out,
                "<details class=\"tool\"><summary><span class=\"mark\">↩</span> <b>{}</b> <span class=\"notes\">{}</span></summary>",
                escaped_line(name),
                escaped_line(id)
            )?;
            write_result(result, out)?;
            writeln!(out, "</details>")
        }
        Part::Image { media_type, path, n_bytes } => {
            let text = facts::image(media_type.as_deref(), path.as_deref(), *n_bytes);
            writeln!(out, "<p class=\"picture\">Picture: {}</p>", escaped_line(&text))
        }
        Part::Attachment { kind, name, text } => {
            let name = name.as_deref().unwrap_or_default();
            let caption = format!("Attached: {} <b>{}</b>", escaped_line(kind), escaped_line(name));
            match text {
                Some(text) => writeln!(
                    out,
                    "<details class=\"attachment\"><summary>{caption}</summary>{}</details>",
                    pre("", text)
                ),
                None => writeln!(out, "<p class=\"attachment\">{caption}</p>"),
            }
        }
        Part::Code { language, path, text } => {
            let label = [path, language].into_iter().flatten().cloned().collect::<Vec<_>>();
            writeln!(out, "{}", pre(&label.join(" · "), text))
        }
        Part::Todos { todos } => write_todos(todos, out),
        Part::Error { text } => {
            writeln!(out, "<p class=\"error\" role=\"note\">{}</p>", escaped(text))
        }
        Part::Unknown { kind, value } => {
            writeln!(
                out,
                "<details class=\"tool\"><summary><span class=\"mark\">?</span> <b>{}</b> <span class=\"notes\">unknown kind</span></summary>",
                escaped_line(kind)
            )?;
            write_fields(value, out)?;
            writeln!(out, "</details>")
        }
    }
}

fn write_tool_call(call: &ToolCall, out: &mut dyn Write) -> io::Result<()> {
    let (class, mark) = match call.state {
        ToolState::Succeeded => ("good", "✓"),
        ToolState::Failed => ("bad", "✗"),
        ToolState::Rejected => ("odd", "⊘"),
        ToolState::Cancelled => ("odd", "■"),
        ToolState::Pending => ("odd", "◐"),
        ToolState::Unknown => ("", "·"),
    };
    let subject = facts::tool_subject(call)
        .map_or_else(String::new, |subject| format!(" <code>{}</code>", escaped_line(&subject)));
    writeln!(
        out,
        "<details class=\"tool {class}\"><summary><span class=\"mark\">{mark}</span> <b>{}</b>{subject} <span class=\"notes\">{}</span></summary>",
        escaped_line(facts::tool(call)),
        facts::tool_outcome(call),
    )?;
    let notes = facts::tool_notes(call);
    if !notes.is_empty() {
        write_facts(&notes, out)?;
    }
    if !call.input.is_null() {
        writeln!(out, "<h3>Input</h3>")?;
        write_fields(&call.input, out)?;
    }
    if let Some(result) = &call.result {
        writeln!(out, "<h3>Result</h3>")?;
        write_result(result, out)?;
    }
    writeln!(out, "</details>")
}

fn write_result(result: &ToolResult, out: &mut dyn Write) -> io::Result<()> {
    if let Some(error) = &result.error {
        writeln!(out, "<p class=\"error\">{}</p>", escaped(error))?;
    }
    write_fields(&result.output, out)?;
    if result.is_truncated {
        writeln!(out, "<p class=\"note\">The store kept only a part.</p>")?;
    }
    if result.output.is_null() && result.error.is_none() {
        writeln!(out, "<p class=\"note\">Empty.</p>")?;
    }
    Ok(())
}

fn write_fields(value: &Json, out: &mut dyn Write) -> io::Result<()> {
    let fields = fields::fields(value);
    let is_short = |field: &&Field| matches!(field.value, FieldValue::Short(_));
    if fields.iter().any(|field| is_short(&field)) {
        writeln!(out, "<dl>")?;
        for Field { name, value, .. } in fields.iter().filter(is_short) {
            let FieldValue::Short(text) = value else { continue };
            let name = escaped_line(name);
            let name = if name.is_empty() { name } else { format!("<dt>{name}</dt>") };
            writeln!(out, "<div>{name}<dd><code>{}</code></dd></div>", escaped_line(text))?;
        }
        writeln!(out, "</dl>")?;
    }
    for Field { name, value, role } in &fields {
        let (FieldValue::Text(text) | FieldValue::Json(text)) = value else { continue };
        let class = match role {
            FieldRole::Any => "",
            FieldRole::Removed => " class=\"old\"",
            FieldRole::Added => " class=\"new\"",
        };
        writeln!(out, "<div{class}>{}</div>", pre(name, text))?;
    }
    Ok(())
}

fn pre(label: &str, text: &str) -> String {
    format!("{}{}</code></pre>", labelled_code(label), escaped(text))
}

fn write_todos(todos: &[Todo], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<ul class=\"todos\">")?;
    for Todo { text, state } in todos {
        writeln!(out, "<li>{} {}</li>", facts::todo_mark(*state), escaped_line(text))?;
    }
    writeln!(out, "</ul>")
}

fn write_appendix(conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    let section = |out: &mut dyn Write, title: &str| {
        writeln!(out, "<section class=\"appendix\"><h2>{title}</h2>")
    };
    if !conversation.head.pending.is_empty() {
        section(out, "Pending tool calls")?;
        for pending in &conversation.head.pending {
            write_tool_call(&facts::pending_call(pending), out)?;
        }
        writeln!(out, "</section>")?;
    }
    if !conversation.todos.is_empty() {
        section(out, "Todo list")?;
        write_todos(&conversation.todos, out)?;
        writeln!(out, "</section>")?;
    }
    if let Some(plan) = &conversation.plan {
        section(out, "Plan")?;
        writeln!(out, "<div class=\"text\" dir=\"auto\">{}</div>", rendered(plan, LineEnds::Flow))?;
        writeln!(out, "</section>")?;
    }
    write_list(out, "Changed files", conversation.files.iter().cloned(), "ul")?;
    write_list(out, "Turns", conversation.turns.iter().map(facts::turn), "ol")
}

fn write_list(
    out: &mut dyn Write,
    title: &str,
    items: impl Iterator<Item = String>,
    element: &str,
) -> io::Result<()> {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "<section class=\"appendix\"><h2>{title}</h2><{element}>")?;
    for item in items {
        writeln!(out, "<li>{}</li>", escaped_line(&item))?;
    }
    writeln!(out, "</{element}></section>")
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
