//! One line of a JSONL transcript.

use serde_json::{Map, Value as Json};

use crate::lenient_json;
use crate::model::{Message, MessageKind, Part, Role, ToolCall, ToolResult, ToolState, TurnState};
use crate::text::prompt_time::parse_prompt_time;
use crate::text::user_text::split_user_text;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum TranscriptLine {
    Message(Message),
    /// Ends the turn before it.
    TurnEnded {
        state: TurnState,
        error: Option<String>,
    },
}

/// Decodes one line. Keeps all JSON, known or not.
pub(super) fn decode_line(line: &[u8]) -> Result<TranscriptLine, serde_json::Error> {
    let value = lenient_json::parse(line)?;
    let Json::Object(fields) = value else {
        return Ok(unknown("line", value));
    };
    let kind = fields.get("type").and_then(Json::as_str).unwrap_or_default();
    Ok(match (fields.get("role").and_then(Json::as_str), kind) {
        (Some(role), _) => TranscriptLine::Message(decode_message(role, &fields)),
        (None, "turn_ended") => decode_turn_end(&fields),
        (None, "error") => {
            let text = error_text(&fields).unwrap_or_else(|| Json::Object(fields).to_string());
            TranscriptLine::Message(Message::new(Role::Assistant, vec![Part::Error { text }]))
        }
        // Claude Code writes the role as the type.
        (None, role @ ("user" | "assistant")) if fields.contains_key("message") => {
            TranscriptLine::Message(decode_message(role, &fields))
        }
        (None, kind) => {
            let kind = if kind.is_empty() { "line" } else { kind }.to_owned();
            unknown(&kind, Json::Object(fields))
        }
    })
}

/// True if a message has a result that belongs to another message's call.
pub(super) fn has_tool_result(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::ToolResult { .. }))
}

/// A user message, as the model saw it.
pub(super) fn user_message(texts: &[&str], mut others: Vec<Part>) -> Message {
    let mut message = Message::new(Role::User, Vec::new());
    // Some builds send tool results with the role `user`.
    let mut is_said = others.iter().any(|part| !matches!(part, Part::ToolResult { .. }));
    for text in texts {
        let split = split_user_text(text);
        for (tag, body) in split.context {
            message.parts.push(Part::context(tag, body.trim_matches(['\n', '\r'])));
        }
        if let Some(written) = split.timestamp {
            match parse_prompt_time(written) {
                Some(at) => message.at = message.at.or(Some(at)),
                None => message.parts.push(Part::context("timestamp", written)),
            }
        }
        if let Some(query) = split.query {
            is_said = true;
            message.parts.push(Part::Text { text: query.into_owned() });
        }
    }
    message.parts.append(&mut others);
    if !is_said {
        message.kind = MessageKind::Context;
    }
    message
}

fn unknown(kind: &str, value: Json) -> TranscriptLine {
    let part = Part::Unknown { kind: kind.to_owned(), value };
    TranscriptLine::Message(Message::new(Role::Unknown, vec![part]))
}

fn decode_turn_end(fields: &Map<String, Json>) -> TranscriptLine {
    let state = match fields.get("status").and_then(Json::as_str) {
        Some("success" | "completed" | "finished") => TurnState::Finished,
        Some("aborted" | "cancelled" | "canceled") => TurnState::Cancelled,
        Some("error" | "failed") => TurnState::Failed,
        _ => TurnState::Unknown,
    };
    TranscriptLine::TurnEnded { state, error: error_text(fields) }
}

/// Reads `error` as a string, or as an object with a `message`.
fn error_text(fields: &Map<String, Json>) -> Option<String> {
    match fields.get("error").or_else(|| fields.get("message"))? {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Object(error) if error.len() == 1 => match error.get("message") {
            Some(Json::String(text)) => Some(text.clone()),
            _ => Some(Json::Object(error.clone()).to_string()),
        },
        other => Some(other.to_string()),
    }
}

fn decode_message(role: &str, fields: &Map<String, Json>) -> Message {
    let inner = fields.get("message");
    let content = inner
        .map(|inner| inner.get("content").unwrap_or(inner))
        .or_else(|| fields.get("content"))
        .unwrap_or(&Json::Null);
    let mut message = match role {
        "user" => decode_user(content),
        "assistant" => Message::new(Role::Assistant, decode_content(content)),
        "system" => Message::new(Role::System, decode_content(content)),
        "tool" => Message::new(Role::Tool, decode_content(content)),
        role => {
            let mut message = Message::new(Role::Unknown, decode_content(content));
            let value = Json::String(role.to_owned());
            message.parts.push(Part::Unknown { kind: "role".to_owned(), value });
            message
        }
    };
    let text_of = |name: &str| {
        let inside = inner.and_then(|inner| inner.get(name));
        inside.or_else(|| fields.get(name)).and_then(Json::as_str).map(str::to_owned)
    };
    message.id = text_of("id").or_else(|| text_of("uuid"));
    message.model = text_of("model");
    if message.at.is_none() {
        message.at = text_of("timestamp").and_then(|text| parse_prompt_time(&text));
    }
    message
}

fn decode_user(content: &Json) -> Message {
    match content {
        Json::Array(blocks) => {
            let is_text = |block: &&Json| text_block(block).is_some();
            let texts: Vec<&str> = blocks.iter().filter_map(text_block).collect();
            let others = blocks.iter().filter(|block| !is_text(block)).map(decode_block).collect();
            user_message(&texts, others)
        }
        Json::String(text) => user_message(&[text], Vec::new()),
        other => user_message(&[], decode_content(other)),
    }
}

fn text_block(block: &Json) -> Option<&str> {
    match block {
        Json::String(text) => Some(text),
        _ if block.get("type").and_then(Json::as_str) == Some("text") => {
            block.get("text")?.as_str()
        }
        _ => None,
    }
}

fn decode_content(content: &Json) -> Vec<Part> {
    match content {
        Json::Null => Vec::new(),
        Json::String(text) => vec![Part::text(text)],
        Json::Array(blocks) => blocks.iter().map(decode_block).collect(),
        block => vec![decode_block(block)],
    }
}

/// Reads one block of a message's content: text, thinking, a tool call or its result, an image.
pub(crate) fn decode_block(block: &Json) -> Part {
    if let Some(text) = text_block(block) {
        return Part::text(text);
    }
    let kind = block.get("type").and_then(Json::as_str).unwrap_or_default();
    let text_of = |names: &[&str]| {
        names.iter().find_map(|name| block.get(name).and_then(Json::as_str).map(str::to_owned))
    };
    let known = match kind {
        "thinking" | "reasoning" => {
            text_of(&["thinking", "text", "reasoning"]).map(Part::reasoning)
        }
        "redacted_thinking" | "redacted-reasoning" => {
            Some(Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true })
        }
        "tool_use" | "tool-call" => {
            let name = text_of(&["name", "toolName"]).unwrap_or_default();
            let input = ["input", "args"].iter().find_map(|name| block.get(name)).cloned();
            let mut call = ToolCall::new(name, input.unwrap_or_default());
            call.id = text_of(&["id", "toolCallId"]);
            Some(Part::ToolCall(call))
        }
        "tool_result" | "tool-result" => Some(decode_tool_result(block)),
        "image" => Some(decode_image(block)),
        _ => None,
    };
    known.unwrap_or_else(|| Part::Unknown {
        kind: if kind.is_empty() { "block" } else { kind }.to_owned(),
        value: block.clone(),
    })
}

fn decode_tool_result(block: &Json) -> Part {
    let text_of = |names: [&str; 2]| {
        names.iter().find_map(|name| block.get(name)?.as_str()).map(str::to_owned)
    };
    let output = ["content", "result", "output"].iter().find_map(|name| block.get(name));
    let is_error =
        ["is_error", "isError"].iter().any(|name| block.get(name) == Some(&Json::Bool(true)));
    let error = is_error.then(|| match output {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    });
    Part::ToolResult {
        call_id: text_of(["tool_use_id", "toolCallId"]),
        tool_name: text_of(["name", "toolName"]),
        result: ToolResult {
            output: output.cloned().unwrap_or_default(),
            error,
            is_truncated: false,
        },
    }
}

fn decode_image(block: &Json) -> Part {
    let source = block.get("source").unwrap_or(block);
    let text_of = |names: &[&str]| names.iter().find_map(|name| source.get(name)?.as_str());
    Part::Image {
        media_type: text_of(&["media_type", "mimeType", "mediaType"]).map(str::to_owned),
        path: text_of(&["path", "url", "file_path"]).map(str::to_owned),
        // Base64 uses four characters for three bytes.
        n_bytes: text_of(&["data"]).map(|data| data.trim_end_matches('=').len() as u64 * 3 / 4),
    }
}

/// Returns the state of a call with this result.
pub(super) fn state_of(result: &ToolResult) -> ToolState {
    if result.error.is_some() { ToolState::Failed } else { ToolState::Succeeded }
}

#[cfg(test)]
#[path = "json_line_tests.rs"]
mod tests;
