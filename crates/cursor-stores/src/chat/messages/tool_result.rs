//! A tool's result in a prompt message.

use serde_json::{Map, Value as Json};

use super::json_binary::without_bytes;
use super::json_message::{first_text, text_of};
use crate::model::{ToolCall, ToolResult, ToolState};

/// A result that is not yet attached to its call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallResult {
    pub(crate) call_id: Option<String>,
    pub(crate) tool_name: Option<String>,
    pub(crate) result: ToolResult,
    pub(crate) state: ToolState,
    pub(crate) duration_ms: Option<u64>,
    /// The conversation that a task started.
    pub(crate) subagent: Option<String>,
}

impl CallResult {
    pub(crate) fn answer(self, call: &mut ToolCall) {
        call.result = Some(self.result);
        call.state = self.state;
        call.duration_ms = call.duration_ms.or(self.duration_ms);
        call.subagent = call.subagent.take().or(self.subagent);
    }
}

/// Reads a block of kind `tool-result`. `options` belong to the message around it.
pub(crate) fn call_result(mut block: Map<String, Json>, options: &Json) -> CallResult {
    let high_level = &options["highLevelToolCallResult"];
    let outcome = &high_level["output"];
    let is_error = ["isError", "is_error"]
        .iter()
        .find_map(|key| block.get(*key)?.as_bool())
        .or_else(|| high_level["isError"].as_bool());
    let output = output_of(&mut block, outcome);
    let error = error_text(&block, high_level)
        .filter(|error| output.as_str().is_none_or(|output| output.trim() != error.trim()));
    let success = &outcome["success"];
    CallResult {
        call_id: first_text(&block, &["toolCallId", "tool_use_id", "id"]),
        tool_name: first_text(&block, &["toolName", "name"]),
        state: state_of(is_error, outcome, &output),
        duration_ms: success["executionTime"].as_u64().filter(|duration| *duration > 0),
        subagent: text_of(&success["agentId"]),
        result: ToolResult { output, error, is_truncated: false },
    }
}

/// Returns text, an array of blocks or an object. Blocks that are all text become text. If the block itself has no
/// text, the tool's own return value counts.
fn output_of(block: &mut Map<String, Json>, outcome: &Json) -> Json {
    let plain = ["result", "output", "content"].iter().find_map(|key| block.remove(*key));
    let has_plain = plain.as_ref().is_some_and(|plain| *plain != Json::Null && plain != "");
    let rich = block
        .remove("experimental_content")
        .filter(|content| !is_only_text(content) || !has_plain && has_text(content));
    let returned = || {
        let mut members = outcome.as_object()?.values();
        members.find(|member| has_text(member)).cloned()
    };
    let output = match rich {
        Some(rich) => rich,
        None if has_plain => plain.unwrap_or_default(),
        None => returned().or(plain).unwrap_or_default(),
    };
    match joined_text(&output) {
        Some(text) => Json::String(text),
        None => without_bytes(output),
    }
}

/// True if the value contains a non-empty text.
fn has_text(output: &Json) -> bool {
    match output {
        Json::String(text) => !text.is_empty(),
        Json::Array(values) => values.iter().any(has_text),
        Json::Object(fields) => {
            fields.iter().any(|(name, value)| name != "type" && has_text(value))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// True for content that has only text. The field `result` repeats the text.
fn is_only_text(content: &Json) -> bool {
    match content {
        Json::Array(blocks) => blocks.iter().all(|block| block["type"] == "text"),
        Json::Null => true,
        _ => false,
    }
}

fn joined_text(output: &Json) -> Option<String> {
    let blocks = output.as_array().filter(|blocks| !blocks.is_empty())?;
    let texts: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| {
            let is_plain = block["type"] == "text";
            block["text"].as_str().filter(|_| is_plain)
        })
        .collect();
    Some(texts?.join("\n"))
}

fn error_text(block: &Map<String, Json>, high_level: &Json) -> Option<String> {
    if let Some(error) = block.get("error").filter(|error| !error.is_null()) {
        return Some(text_of(error).unwrap_or_else(|| error.to_string()));
    }
    let messages = high_level["rawErrorMessages"].as_array()?;
    let messages: Vec<&str> = messages.iter().filter_map(Json::as_str).collect();
    Some(messages.join("\n")).filter(|text| !text.is_empty())
}

/// The outcome's union member is more precise than the error flag next to it.
fn state_of(is_error: Option<bool>, outcome: &Json, output: &Json) -> ToolState {
    let has = |key: &str| outcome.get(key).is_some_and(Json::is_object);
    let is_interrupted =
        output.as_str().is_some_and(|text| text.contains("was interrupted by the user"));
    let is_failure =
        ["failure", "error", "timeout", "spawnError", "fileNotFound"].into_iter().any(has);
    if has("rejected") || has("permissionDenied") {
        ToolState::Rejected
    } else if is_error == Some(true) && is_interrupted {
        ToolState::Cancelled
    } else if is_error == Some(true) || is_failure {
        ToolState::Failed
    } else {
        // Older builds write a successful result without any flag.
        ToolState::Succeeded
    }
}
