//! A message as the model got it: the JSON of an `agentKv:blob`.

use std::collections::HashMap;

use serde_json::Value as Json;

use crate::ide::conversation::bubble::user_parts;
use crate::ide::lenient::{is_true, items, parse, text, text_of, unpack};
use crate::model::{Message, MessageKind, Part, Role, ToolCall, ToolResult, ToolState};

/// A message, and its request if it opens a turn.
#[derive(Debug, Clone)]
pub(crate) struct AgentMessage {
    pub(crate) message: Message,
    /// Only the prompt that opens a turn has it.
    pub(crate) request_id: Option<String>,
}

/// Reads the JSON of a blob. `None` if it is not a message.
pub(crate) fn read_agent_message(blob_id: &str, bytes: &[u8]) -> Option<AgentMessage> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    agent_message(blob_id, &parse(bytes)?)
}

pub(crate) fn agent_message(blob_id: &str, json: &Json) -> Option<AgentMessage> {
    let role = match text(&json["role"])? {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => Role::Unknown,
    };
    let cursor = &json["providerOptions"]["cursor"];
    let mut parts = match &json["content"] {
        Json::String(said) => said_parts(role, said),
        Json::Array(blocks) => blocks.iter().flat_map(|block| block_parts(role, block)).collect(),
        _ => Vec::new(),
    };
    parts.extend(items(&json["tool_calls"]).iter().map(openai_call));
    let is_context = role == Role::System
        || role == Role::User
            && !parts.is_empty()
            && parts.iter().all(|part| matches!(part, Part::Attachment { .. }));
    let kind = match (is_true(&cursor["isSummary"]), is_context) {
        (true, _) => MessageKind::Summary,
        (false, true) => MessageKind::Context,
        (false, false) => MessageKind::Said,
    };
    let model = text(&cursor["modelName"])
        .or_else(|| {
            items(&json["content"])
                .iter()
                .find_map(|block| text(&block["providerOptions"]["cursor"]["modelName"]))
        })
        .map(str::to_owned);
    let message =
        Message { id: Some(blob_id.to_owned()), role, kind, turn: None, at: None, model, parts };
    Some(AgentMessage { message, request_id: text(&cursor["requestId"]).map(str::to_owned) })
}

fn said_parts(role: Role, said: &str) -> Vec<Part> {
    match role {
        Role::User => user_parts(said),
        _ if said.trim().is_empty() => Vec::new(),
        Role::Assistant => match said
            .trim_start()
            .strip_prefix("<think>")
            .and_then(|rest| rest.split_once("</think>"))
        {
            Some((thought, rest)) => {
                let mut parts = vec![Part::reasoning(thought.trim())];
                if !rest.trim().is_empty() {
                    parts.push(Part::text(rest.trim_start()));
                }
                parts
            }
            None => vec![Part::text(said)],
        },
        _ => vec![Part::text(said)],
    }
}

fn block_parts(role: Role, block: &Json) -> Vec<Part> {
    let owned = |name: &str| text(&block[name]).map(str::to_owned);
    let part = match block["type"].as_str() {
        Some("text") => return said_parts(role, block["text"].as_str().unwrap_or_default()),
        Some("reasoning" | "thinking") => {
            let said = text_of(block, &["text", "thinking"]).unwrap_or_default();
            // If the provider hides a thought, only its signature is left.
            if said.is_empty() {
                return Vec::new();
            }
            Part::reasoning(said)
        }
        Some("redacted-reasoning") => {
            Part::Reasoning { text: String::new(), duration_ms: None, is_redacted: true }
        }
        Some("tool-call") => {
            let args = match &block["args"] {
                Json::Null => unpack(&block["providerOptions"]["cursor"]["rawToolCallArgs"]),
                args => unpack(args),
            };
            let args = args.into_owned();
            let mut call = ToolCall::new(text(&block["toolName"]).unwrap_or_default(), args);
            call.id = owned("toolCallId");
            Part::ToolCall(call)
        }
        Some("tool-result") => Part::ToolResult {
            call_id: owned("toolCallId"),
            tool_name: owned("toolName"),
            result: block_result(block),
        },
        Some("image") => Part::Image {
            media_type: owned("mimeType").or_else(|| owned("mediaType")),
            path: text(&block["image"]).filter(|image| image.len() < 1024).map(str::to_owned),
            n_bytes: text(&block["image"]["hex"]).map(|hex| hex.len() as u64 / 2),
        },
        Some("file") => {
            Part::Attachment { kind: "file".to_owned(), name: owned("filename"), text: None }
        }
        kind => Part::Unknown { kind: kind.unwrap_or_default().to_owned(), value: block.clone() },
    };
    vec![part]
}

fn block_result(block: &Json) -> ToolResult {
    let output = ["result", "output", "experimental_content"]
        .iter()
        .filter_map(|name| block.get(name))
        .find(|value| !value.is_null())
        .map(|value| unpack(value).into_owned())
        .unwrap_or_default();
    let error = is_true(&block["isError"]).then(|| {
        text(&block["error"]).or_else(|| text(&output)).unwrap_or("the tool failed").to_owned()
    });
    ToolResult { output, error, is_truncated: false }
}

fn openai_call(call: &Json) -> Part {
    let function = &call["function"];
    let mut read = ToolCall::new(
        text(&function["name"]).unwrap_or_default(),
        unpack(&function["arguments"]).into_owned(),
    );
    read.id = text(&call["id"]).map(str::to_owned);
    Part::ToolCall(read)
}

/// Gives each call its result. Drops messages that held only results of known calls.
pub(crate) fn join_results(messages: &mut Vec<AgentMessage>) {
    let mut results: HashMap<String, ToolResult> = HashMap::new();
    let calls: HashMap<String, ()> = messages
        .iter()
        .flat_map(|message| message.message.tool_calls())
        .filter_map(|call| Some((call_key(call.id.as_deref()?).to_owned(), ())))
        .collect();
    for message in messages.iter_mut() {
        message.message.parts.retain(|part| match part {
            Part::ToolResult { call_id: Some(id), result, .. }
                if calls.contains_key(call_key(id)) =>
            {
                results.insert(call_key(id).to_owned(), result.clone());
                false
            }
            _ => true,
        });
    }
    messages.retain(|message| {
        !(message.message.role == Role::Tool && message.message.parts.is_empty())
    });
    for message in messages.iter_mut() {
        for part in &mut message.message.parts {
            if let Part::ToolCall(call) = part
                && let Some(result) = call.id.as_deref().and_then(|id| results.get(call_key(id)))
            {
                call.state =
                    if result.error.is_some() { ToolState::Failed } else { ToolState::Succeeded };
                call.result = Some(result.clone());
            }
        }
    }
}

/// Some call ids consist of two ids on two lines. Some stores keep both, others only the first.
pub(crate) fn call_key(id: &str) -> &str {
    id.split('\n').next().unwrap_or(id)
}
