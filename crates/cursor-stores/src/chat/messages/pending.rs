//! Messages that are not in the prompt yet: the agent was waiting for them when it wrote its latest root.

use serde_json::Value as Json;

use crate::chat::store::lenient_integer;
use crate::lenient_json;

/// The in-flight messages of a root.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PendingMessages {
    pub n_messages: usize,
    /// How many of the messages are not JSON objects.
    pub n_unreadable: usize,
    /// The calls in the messages. Empty if only a final answer was uncommitted.
    pub tool_calls: Vec<PendingToolCall>,
}

/// An unfinished call. Its side effects may or may not have happened.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingToolCall {
    pub tool_name: String,
    pub tool_call_id: String,
    pub args: Json,
    pub started_at_ms: Option<i64>,
}

/// Reads the root's `pending_tool_calls`.
#[must_use]
pub fn parse_pending(messages: &[String]) -> PendingMessages {
    let mut pending = PendingMessages { n_messages: messages.len(), ..PendingMessages::default() };
    for message in messages {
        match lenient_json::parse_as(message.as_bytes()) {
            Ok(Json::Object(message)) => pending.tool_calls.extend(tool_calls(&message.into())),
            _ => pending.n_unreadable += 1,
        }
    }
    pending
}

fn tool_calls(message: &Json) -> impl Iterator<Item = PendingToolCall> + '_ {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter(|block| block["type"] == "tool-call").map(|block| PendingToolCall {
        tool_name: text(&block["toolName"]),
        tool_call_id: text(&block["toolCallId"]),
        args: block["args"].clone(),
        started_at_ms: [block, message].iter().find_map(|holder| {
            lenient_integer(&holder["providerOptions"]["cursor"]["pendingToolCallStartedAtMs"])
        }),
    })
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
