//! Merges many events into one tool call: the last status and result, and the most complete input.

use serde_json::Value as Json;

use crate::model::{ToolCall, ToolResult, ToolState};
use crate::sdk::records::fields::{error_text, recorded, words};

/// The content of one event of a call.
#[derive(Debug, Default)]
pub(crate) struct CallEvent {
    pub(crate) id: Option<String>,
    name: Option<String>,
    input: Json,
    pub(crate) is_input_cut: bool,
    status: Option<Status>,
    result: Option<Json>,
    is_result_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Running,
    Completed,
    Error,
}

impl CallEvent {
    /// Reads a `tool_call` message.
    pub(crate) fn from_message(message: &mut Json) -> Self {
        let is_cut = |what: &str| message["truncated"][what] == true;
        let (is_input_cut, is_result_cut) = (is_cut("args"), is_cut("result"));
        Self {
            id: words(message.get("call_id")),
            name: words(message.get("name")),
            input: message.get_mut("args").map(Json::take).unwrap_or_default(),
            is_input_cut,
            status: match message["status"].as_str() {
                Some("running") => Some(Status::Running),
                Some("completed") => Some(Status::Completed),
                Some("error") => Some(Status::Error),
                _ => None,
            },
            result: message.get_mut("result").map(Json::take).filter(|result| !result.is_null()),
            is_result_cut,
        }
    }

    /// Reads a `tool_use` block: the call as the model made it.
    pub(crate) fn from_block(block: &mut Json) -> Self {
        Self {
            id: words(block.get("id")),
            name: words(block.get("name")),
            input: block.get_mut("input").map(Json::take).unwrap_or_default(),
            ..Self::default()
        }
    }
}

pub(crate) fn new_call(event: CallEvent, at: Option<i64>) -> ToolCall {
    let mut call = ToolCall::new(event.name.clone().unwrap_or_default(), Json::Null);
    call.id = event.id.clone();
    call.started = recorded(at);
    call.state = ToolState::Pending;
    let mut is_input_cut = false;
    merge_call(&mut call, event, None, &mut is_input_cut);
    call
}

/// Merges another event into a call. `at` is the time of that event.
pub(crate) fn merge_call(
    call: &mut ToolCall,
    event: CallEvent,
    at: Option<i64>,
    is_input_cut: &mut bool,
) {
    if let Some(name) = event.name
        && (call.name.is_empty() || call.name == "unknown")
    {
        let renamed = ToolCall::new(name, Json::Null);
        (call.name, call.tool) = (renamed.name, renamed.tool);
    }
    // A partial input must not replace a complete one.
    let is_worse = event.is_input_cut && !*is_input_cut && !is_empty(&call.input);
    if !is_empty(&event.input) && !is_worse {
        call.input = event.input;
        *is_input_cut = event.is_input_cut;
    }
    let is_end = matches!(event.status, Some(Status::Completed | Status::Error));
    if let Some(result) = event.result {
        let (result, state) = open_envelope(result, event.is_result_cut);
        call.subagent = words(result.output.get("agentId")).or_else(|| call.subagent.take());
        // The SDK counts every command that ran as a success, whatever its exit code.
        let state = match result.exit_code() {
            Some(code) if code != 0 && state == ToolState::Succeeded => ToolState::Failed,
            _ => state,
        };
        call.result = Some(result);
        if is_end || event.status.is_none() {
            call.state = state;
        }
    } else if event.status == Some(Status::Completed) && call.state == ToolState::Pending {
        call.state = ToolState::Succeeded;
    }
    if event.status == Some(Status::Error) && call.state != ToolState::Rejected {
        call.state = ToolState::Failed;
    }
    if is_end && let (Some(started), Some(at)) = (call.started, at) {
        call.duration_ms = u64::try_from(at.saturating_sub(started.at_ms)).ok();
    }
}

/// Takes from a checkpoint what the events lack, or have only in part.
pub(crate) fn complete_call(call: &mut ToolCall, known: &ToolCall, is_input_cut: &mut bool) {
    if (*is_input_cut || is_empty(&call.input)) && !is_empty(&known.input) {
        call.input = known.input.clone();
        *is_input_cut = false;
    }
    let is_whole = call.result.as_ref().is_some_and(|result| !result.is_truncated);
    if !is_whole && known.result.is_some() {
        call.result.clone_from(&known.result);
        if call.state == ToolState::Pending {
            call.state = known.state;
        }
    }
}

/// Unwraps a result: `{status: success, value}` or `{status: error, error}`. Older and newer tools have different
/// wrappers, or none.
fn open_envelope(mut result: Json, is_truncated: bool) -> (ToolResult, ToolState) {
    let status = words(result.get("status")).unwrap_or_default().to_ascii_lowercase();
    let (inner, state) = match status.as_str() {
        "success" | "ok" | "completed" => ("value", ToolState::Succeeded),
        "error" | "failure" | "failed" => ("error", ToolState::Failed),
        "rejected" | "denied" | "permission_denied" | "permissiondenied" => {
            ("error", ToolState::Rejected)
        }
        "cancelled" | "canceled" | "aborted" => ("error", ToolState::Cancelled),
        _ => ("", ToolState::Succeeded),
    };
    let is_envelope = result.as_object().is_some_and(|fields| {
        fields
            .keys()
            .all(|name| [inner, "status", "error", "value", "reason"].contains(&name.as_str()))
    });
    let output = match result.get_mut(inner) {
        Some(output) if is_envelope => output.take(),
        _ if is_envelope && !inner.is_empty() => {
            result.get_mut("reason").map(Json::take).unwrap_or_default()
        }
        _ => result,
    };
    let is_error = state != ToolState::Succeeded;
    let error = (is_error && !output.is_null()).then(|| error_text(&output));
    // An error that is only text would appear twice.
    let says_more = !is_error || output.as_object().is_some_and(|fields| fields.len() > 1);
    let output = if says_more { output } else { Json::Null };
    (ToolResult { output, error, is_truncated }, state)
}

fn is_empty(input: &Json) -> bool {
    match input {
        Json::Null => true,
        Json::Object(fields) => fields.is_empty(),
        Json::Array(values) => values.is_empty(),
        Json::String(text) => text.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

#[cfg(test)]
#[path = "tool_event_tests.rs"]
mod tests;
