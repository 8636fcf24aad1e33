//! The JSON messages of the model's prompt, in Cursor's shape and key order.

use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::records::{PendingCall, RememberedMessage, Role, ToolCallRecord, ToolResultRecord};

const SYSTEM_PROMPT: &str = "You are a simulated coding agent. You follow a script and work in the user's workspace \
     with the tools you are given. Say what you do before you do it, and report what came of it.";

pub(super) fn system() -> Value {
    json!({ "role": "system", "content": SYSTEM_PROMPT })
}

/// The first user message describes the machine. The user did not write it.
pub(super) fn user_info(workspace: &Path) -> Value {
    let text = format!(
        "<user_info>\nOS Version: {}\n\nShell: sh\n\nWorkspace Path: {}\n</user_info>",
        std::env::consts::OS,
        workspace.display()
    );
    json!({ "role": "user", "content": text })
}

pub(super) fn user_query(prompt: &str, request_id: &str) -> Value {
    json!({
        "role": "user",
        "content": [{ "type": "text", "text": format!("{QUERY_OPENS}{prompt}{QUERY_CLOSES}") }],
        "providerOptions": { "cursor": { "requestId": request_id } },
    })
}

const QUERY_OPENS: &str = "<user_query>\n";
const QUERY_CLOSES: &str = "\n</user_query>";

/// The speaker of a message.
pub(super) struct AssistantIdentity<'a> {
    /// `"1"` in builds up to early 2026, the provider's id in later ones.
    pub(super) message_id: &'a str,
    pub(super) is_provider_id: bool,
    pub(super) model: &'a str,
}

/// Returns the assistant's message in the root's field 4: `id` comes first.
pub(super) fn pending_assistant(
    identity: &AssistantIdentity<'_>,
    thinking: Option<&str>,
    text: Option<&str>,
    calls: &[ToolCallRecord],
    started_ms: u64,
) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = thinking {
        content.push(json!({
            "type": "reasoning",
            "text": thinking,
            "signature": hex::encode(Sha256::digest(thinking)),
            "providerOptions": { "cursor": { "modelName": identity.model } },
        }));
    }
    if let Some(text) = text {
        content.push(json!({ "type": "text", "text": text }));
    }
    content.extend(calls.iter().map(tool_call_part));
    let mut message = json!({ "id": identity.message_id, "role": "assistant", "content": content });
    if identity.is_provider_id {
        let mut cursor = json!({ "modelProviderMessageId": identity.message_id });
        if !calls.is_empty() {
            cursor[STARTED_AT] = started_ms.into();
        }
        message["providerOptions"] = json!({ "cursor": cursor });
    }
    message
}

const STARTED_AT: &str = "pendingToolCallStartedAtMs";

fn tool_call_part(call: &ToolCallRecord) -> Value {
    json!({
        "type": "tool-call",
        "toolCallId": call.call_id,
        "toolName": call.tool_name,
        "args": call.model_args,
        "providerOptions": { "cursor": { "rawToolCallArgs": call.model_args.to_string() } },
    })
}

/// Turns a pending message into a part of the prompt: `id` comes after the content, and nothing is pending.
pub(super) fn committed(pending: &Value) -> Value {
    let Some(pending) = pending.as_object() else { return pending.clone() };
    let mut message = pending.clone();
    if let Some(id) = message.shift_remove("id") {
        let options = message.shift_remove("providerOptions");
        message.insert("id".to_owned(), id);
        message.extend(options.map(|options| ("providerOptions".to_owned(), options)));
    }
    if let Some(cursor) =
        message.get_mut("providerOptions").and_then(|options| options.get_mut("cursor"))
        && let Some(cursor) = cursor.as_object_mut()
    {
        cursor.shift_remove(STARTED_AT);
    }
    message.into()
}

pub(super) fn tool_result(tool_name: &str, record: &ToolResultRecord) -> Value {
    let mut result = json!({
        "type": "tool-result",
        "toolCallId": record.call_id,
        "toolName": tool_name,
        "result": record.for_model,
        "experimental_content": [{ "type": "text", "text": record.for_model }],
    });
    let mut high_level =
        json!({ "output": without_defaults(&record.result), "isError": record.is_error });
    if record.is_error {
        result["isError"] = true.into();
        high_level["rawErrorMessages"] = json!([record.for_model]);
    }
    json!({
        "role": "tool",
        "content": [result],
        "id": record.call_id,
        "providerOptions": { "cursor": { "highLevelToolCallResult": high_level } },
    })
}

/// Returns the result that the model reads for an interrupted call.
pub(super) fn interrupted_result(tool_name: &str, call_id: &str, after_ms: u64) -> Value {
    let what = if tool_name == "Shell" { "Shell command" } else { "Tool call" };
    let text = format!(
        "Error: {what} was interrupted by the user after {after_ms} ms before it completed."
    );
    let record = ToolResultRecord {
        call_id: call_id.to_owned(),
        result: json!({ "error": { "errorMessage": text } }),
        for_model: text,
        is_error: true,
    };
    tool_result(tool_name, &record)
}

/// The stream prints fields with their default value. The store omits them, unless absence has a meaning.
fn without_defaults(result: &Value) -> Value {
    const MEANINGFUL_WHEN_EMPTY: [&str; 6] = [
        "interleavedOutput",
        "content",
        "data",
        "beforeFullFileContent",
        "linesAdded",
        "linesRemoved",
    ];
    let is_default = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(value) => !value,
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::Object(_) => false,
    };
    let mut result = result.clone();
    for outcome in result
        .as_object_mut()
        .into_iter()
        .flat_map(Map::values_mut)
        .filter_map(Value::as_object_mut)
    {
        outcome.retain(|key, value| {
            MEANINGFUL_WHEN_EMPTY.contains(&key.as_str()) || !is_default(value)
        });
    }
    result
}

pub(super) fn summary(text: &str) -> Value {
    json!({
        "role": "user",
        "content": [{ "type": "text", "text": format!("<summary>\n{text}\n</summary>") }],
        "providerOptions": { "cursor": { "isSummary": true } },
    })
}

pub(super) fn is_summary(message: &Value) -> bool {
    message.pointer("/providerOptions/cursor/isSummary") == Some(&Value::Bool(true))
}

/// Returns the tool calls of a pending message.
pub(super) fn pending_calls(pending: &Value) -> Vec<PendingCall> {
    let started_ms =
        pending.pointer(&format!("/providerOptions/cursor/{STARTED_AT}")).and_then(Value::as_u64);
    let text = |part: &Value, key: &str| {
        part.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    parts(pending)
        .filter(|part| part["type"] == "tool-call")
        .map(|part| PendingCall {
            call_id: text(part, "toolCallId"),
            tool_name: text(part, "toolName"),
            started_ms,
        })
        .collect()
}

pub(super) fn parts(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("content").and_then(Value::as_array).into_iter().flatten()
}

/// Reduces a message to role and text; `None` for system messages and for the description of the machine.
pub(super) fn remembered(message: &Value) -> Option<RememberedMessage> {
    let role = match message.get("role").and_then(Value::as_str)? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => return None,
    };
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        _ => parts(message)
            .filter(|part| matches!(part["type"].as_str(), Some("text" | "tool-result")))
            .filter_map(|part| part.get("text").or_else(|| part.get("result"))?.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    };
    if role == Role::User && text.starts_with("<user_info>") {
        return None;
    }
    let text = query_in(&text).unwrap_or(&text).to_owned();
    Some(RememberedMessage { role, text })
}

fn query_in(text: &str) -> Option<&str> {
    let (_, from_query) = text.split_once(QUERY_OPENS)?;
    from_query.rsplit_once(QUERY_CLOSES).map(|(query, _)| query)
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
