//! The tool call of a bubble: `toolFormerData`, in all its shapes.

use serde_json::Value as Json;

use crate::ide::lenient::{is_blank, items, text, text_of, unpack};
use crate::model::{Part, Todo, TodoState, ToolCall, ToolResult, ToolState};

/// Reads a tool call. `None` if it is blank. Many calls have no name, and only record that they failed.
pub(crate) fn tool_call(data: &Json) -> Option<ToolCall> {
    if is_blank(data) {
        return None;
    }
    let mut call = ToolCall::new(text(&data["name"]).unwrap_or_default(), input(data));
    call.id = text(&data["toolCallId"]).map(str::to_owned);
    call.state = state(data);
    call.result = result(data);
    let additional = &data["additionalData"];
    call.subagent = text_of(additional, &["subagentComposerId", "subagentId"]).map(str::to_owned);
    Some(call)
}

/// Other data of a call, whose meaning is unknown.
pub(crate) fn rest_of_call(data: &Json) -> Option<Part> {
    let fields = data["additionalData"].as_object()?;
    let says_more = fields.iter().any(|(name, value)| name != "status" && !is_blank(value));
    says_more.then(|| Part::Unknown {
        kind: "additionalData".to_owned(),
        value: data["additionalData"].clone(),
    })
}

/// Joins the arguments that the model wrote with the parameters that Cursor made from them. Each may lack fields of the
/// other.
fn input(data: &Json) -> Json {
    let (raw, params) =
        (unpack(&data["rawArgs"]).into_owned(), unpack(&data["params"]).into_owned());
    match (raw, params) {
        (Json::Object(mut raw), Json::Object(params)) => {
            for (name, value) in params {
                raw.entry(name).or_insert(value);
            }
            Json::Object(raw)
        }
        (raw, params) if is_blank(&raw) || params.is_object() => {
            if is_blank(&params) {
                Json::Null
            } else {
                params
            }
        }
        (raw, _) => raw,
    }
}

fn result(data: &Json) -> Option<ToolResult> {
    let output = match &data["result"] {
        blank if is_blank(blank) => Json::Null,
        result => unpack(result).into_owned(),
    };
    let error = error_text(&data["error"]);
    (!output.is_null() || error.is_some()).then_some(ToolResult {
        output,
        error,
        is_truncated: false,
    })
}

/// An error: a string, or an object with messages for the model and the user.
pub(crate) fn error_text(error: &Json) -> Option<String> {
    match unpack(error).as_ref() {
        Json::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        error @ Json::Object(_) => text_of(
            error,
            &[
                "message",
                "clientVisibleErrorMessage",
                "modelVisibleErrorMessage",
                "actualErrorMessageShownToUser",
                "error",
                "title",
                "detail",
            ],
        )
        .map(str::to_owned)
        .or_else(|| (!is_blank(error)).then(|| error.to_string())),
        _ => None,
    }
}

fn state(data: &Json) -> ToolState {
    let is_rejected =
        text(&data["userDecision"]).is_some_and(|decision| decision.starts_with("reject"));
    if is_rejected {
        return ToolState::Rejected;
    }
    match text(&data["status"]).or_else(|| text(&data["additionalData"]["status"])) {
        Some("completed" | "success" | "done") => ToolState::Succeeded,
        Some("error" | "failed") => ToolState::Failed,
        Some("cancelled" | "canceled" | "aborted") => ToolState::Cancelled,
        Some("rejected") => ToolState::Rejected,
        Some("loading" | "running" | "pending" | "streaming") => ToolState::Pending,
        _ if error_text(&data["error"]).is_some() => ToolState::Failed,
        _ => ToolState::Unknown,
    }
}

/// A todo list. Its items are objects, or JSON in strings.
pub(crate) fn todos(json: &Json) -> Vec<Todo> {
    items(json)
        .iter()
        .map(unpack)
        .filter_map(|item| {
            let content = text(&item).or_else(|| text_of(&item, &["content", "text", "title"]))?;
            let state = TodoState::of(item["status"].as_str().unwrap_or_default());
            Some(Todo { text: content.to_owned(), state })
        })
        .collect()
}
