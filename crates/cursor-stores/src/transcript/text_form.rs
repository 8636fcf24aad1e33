//! Older transcripts in plain text: `user:` and `assistant:` on their own lines, and markers in brackets.

use serde_json::{Map, Value as Json};

use super::json_line::user_message;
use crate::model::{Message, Part, Role, ToolCall, ToolResult};

/// The speaker of the following lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    /// Text before the first speaker.
    Unnamed,
}

/// Returns the speaker that a line names.
pub(super) fn speaker_line(line: &[u8]) -> Option<Speaker> {
    match line.trim_ascii_end() {
        b"user:" => Some(Speaker::User),
        b"assistant:" => Some(Speaker::Assistant),
        _ => None,
    }
}

/// Reads the text of one speaker. `None` if it is empty.
pub(super) fn decode_speech(speaker: Speaker, body: &str) -> Option<Message> {
    let text = body.trim_matches(['\n', '\r']);
    match speaker {
        Speaker::Unnamed if text.trim().is_empty() => None,
        Speaker::Unnamed => Some(Message::new(Role::Unknown, vec![Part::text(text)])),
        Speaker::User => Some(user_message(&[text], Vec::new())),
        Speaker::Assistant => Some(Message::new(Role::Assistant, decode_parts(text))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section<'a> {
    Text,
    Thinking,
    Call(&'a str),
    Result(&'a str),
}

fn decode_parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut section = Section::Text;
    let mut body: Vec<&str> = Vec::new();
    for line in text.lines() {
        match next_section(section, line, &body) {
            Some((next, first)) => {
                finish(section, &body, &mut parts);
                section = next;
                body = first.into_iter().collect();
            }
            None => body.push(line),
        }
    }
    finish(section, &body, &mut parts);
    parts
}

/// Finds out whether a new section begins at a line, and which part of the line belongs to it.
fn next_section<'a>(
    section: Section<'a>,
    line: &'a str,
    body: &[&str],
) -> Option<(Section<'a>, Option<&'a str>)> {
    let after = |mark: &str| line.strip_prefix(mark).map(str::trim);
    if let Some(thought) = after("[Thinking]") {
        return Some((Section::Thinking, Some(thought)));
    }
    if let Some(name) = after("[Tool call]") {
        return Some((Section::Call(name), None));
    }
    if let Some(name) = after("[Tool result]") {
        return Some((Section::Result(name), None));
    }
    let is_blank = line.trim().is_empty();
    match section {
        // Only an empty line ends a thought.
        Section::Thinking if is_blank && !body.is_empty() => Some((Section::Text, None)),
        // A tool's arguments are indented.
        Section::Call(_) if !is_blank && !line.starts_with([' ', '\t', '{', '}', '[', ']']) => {
            Some((Section::Text, Some(line)))
        }
        _ => None,
    }
}

fn finish(section: Section<'_>, body: &[&str], parts: &mut Vec<Part>) {
    let joined = body.join("\n");
    let text = joined.trim_matches('\n');
    match section {
        Section::Text if text.trim().is_empty() => {}
        Section::Text => parts.push(Part::text(text)),
        Section::Thinking => parts.push(Part::reasoning(text)),
        Section::Call(name) => {
            parts.push(Part::ToolCall(ToolCall::new(name, decode_input(text))));
        }
        Section::Result(name) => {
            let output =
                if text.trim().is_empty() { Json::Null } else { Json::String(text.to_owned()) };
            parts.push(Part::ToolResult {
                call_id: None,
                tool_name: Some(name.to_owned()),
                result: ToolResult::of(output),
            });
        }
    }
}

/// Reads JSON, or lines of `key: value` or `key=value`, or plain text.
fn decode_input(text: &str) -> Json {
    if text.trim().is_empty() {
        return Json::Null;
    }
    if let Ok(value @ (Json::Object(_) | Json::Array(_))) = serde_json::from_str(text) {
        return value;
    }
    let mut entries: Vec<(&str, String)> = Vec::new();
    let indent = text.lines().next().map_or(0, |line| line.len() - line.trim_start().len());
    for line in text.lines() {
        // A line of a long value may look like a key, but no key occurs twice.
        let new = key_and_value(line, indent)
            .filter(|(key, _)| entries.iter().all(|(known, _)| known != key));
        match (new, entries.last_mut()) {
            (Some((key, value)), _) => entries.push((key, value.to_owned())),
            (None, Some((_, value))) => {
                value.push('\n');
                value.push_str(line.get(indent..).unwrap_or(line.trim_start()));
            }
            (None, None) => return Json::String(text.to_owned()),
        }
    }
    let decode_value = |value: &str| {
        let is_nested = value.starts_with(['{', '[']);
        let nested = is_nested.then(|| serde_json::from_str(value).ok()).flatten();
        nested.unwrap_or_else(|| Json::String(value.to_owned()))
    };
    let fields: Map<String, Json> =
        entries.iter().map(|(key, value)| ((*key).to_owned(), decode_value(value))).collect();
    Json::Object(fields)
}

fn key_and_value(line: &str, indent: usize) -> Option<(&str, &str)> {
    let (space, rest) = line.split_at_checked(indent)?;
    let end = rest.find([':', '='])?;
    let (key, value) = rest.split_at(end);
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !is_key || !space.trim().is_empty() {
        return None;
    }
    let value = match value.strip_prefix(':') {
        Some(value) => value.strip_prefix(' ').unwrap_or(value),
        None => value.strip_prefix('=').unwrap_or(value),
    };
    Some((key, value))
}

#[cfg(test)]
#[path = "text_form_tests.rs"]
mod tests;
