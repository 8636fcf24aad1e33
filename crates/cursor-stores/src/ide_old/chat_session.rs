//! Chats of VS Code's own panel inside Cursor: requests, each with its response.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::bubble::moment;
use crate::json_values::{items, text_of};
use crate::model::{Message, Part, Role, ToolCall, ToolState, Turn, TurnState};

/// The fields of a request that belong to its answer.
const OF_RESPONSE: [&str; 4] = ["response", "result", "followups", "contentReferences"];

/// Two messages for each request, and one turn.
pub(super) fn decode_requests(requests: &[Json]) -> (Vec<Message>, Vec<Turn>) {
    let mut messages = Vec::with_capacity(requests.len() * 2);
    let mut turns = Vec::with_capacity(requests.len());
    for request in requests {
        let at = moment(&request["timestamp"]);
        let mut prompt = Message::new(Role::User, prompt_parts(request));
        prompt.id = text_of(request, &["requestId"]).map(str::to_owned);
        prompt.at = at;
        let error = text_of(&request["result"]["errorDetails"], &["message"]).map(str::to_owned);
        let mut answer = Message::new(Role::Assistant, answer_parts(&request["response"]));
        answer.id = text_of(request, &["responseId"]).map(str::to_owned);
        answer.model = text_of(request, &["modelId"]).map(str::to_owned);
        answer.parts.extend(error.clone().map(|text| Part::Error { text }));
        let state = match (&error, request["isCanceled"].as_bool()) {
            (Some(_), _) => TurnState::Failed,
            (None, Some(true)) => TurnState::Cancelled,
            (None, _) if answer.parts.is_empty() => TurnState::Unknown,
            (None, _) => TurnState::Finished,
        };
        turns.push(Turn {
            request_id: prompt.id.clone(),
            model: answer.model.clone(),
            state,
            error,
            ..Turn::default()
        });
        messages.extend([prompt, answer]);
    }
    (messages, turns)
}

/// The JSON that holds each of the messages.
pub(super) fn pieces_of_requests(requests: &[Json]) -> Vec<Cow<'_, Json>> {
    let split = |request: &Json| match request {
        Json::Object(fields) => {
            let (answer, prompt) = fields
                .clone()
                .into_iter()
                .partition(|(name, _)| OF_RESPONSE.contains(&name.as_str()));
            [Cow::Owned(Json::Object(prompt)), Cow::Owned(Json::Object(answer))]
        }
        other => [Cow::Owned(other.clone()), Cow::Owned(Json::Null)],
    };
    requests.iter().flat_map(split).collect()
}

fn prompt_parts(request: &Json) -> Vec<Part> {
    let message = &request["message"];
    let said = message.as_str().or_else(|| text_of(message, &["text"]));
    let mut parts: Vec<Part> = match said {
        Some(said) => vec![Part::text(said)],
        None => {
            let value = if message.is_null() { request } else { message };
            vec![Part::Unknown { kind: "request".to_owned(), value: value.clone() }]
        }
    };
    parts.extend(items(&request["variableData"]["variables"]).iter().map(|variable| {
        let value = &variable["value"];
        Part::Attachment {
            kind: text_of(variable, &["kind"]).unwrap_or("context").to_owned(),
            name: text_of(variable, &["name", "fullName", "id"]).map(str::to_owned),
            text: match value {
                Json::Null => None,
                Json::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            },
        }
    }));
    parts
}

fn answer_parts(response: &Json) -> Vec<Part> {
    let pieces = match response {
        Json::Null => &[][..],
        Json::Array(pieces) => pieces,
        piece => std::slice::from_ref(piece),
    };
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        match (answer_part(piece), parts.last_mut()) {
            // Text is split into pieces at arbitrary points.
            (Part::Text { text: more }, Some(Part::Text { text })) => text.push_str(&more),
            (part, _) => parts.push(part),
        }
    }
    parts
}

fn answer_part(piece: &Json) -> Part {
    let kind = piece["kind"].as_str().unwrap_or_default();
    let value = piece["value"].as_str().or_else(|| text_of(&piece["content"], &["value"]));
    match (kind, value.or(piece.as_str())) {
        ("thinking", Some(thought)) => Part::reasoning(thought),
        ("" | "markdownContent" | "markdownVuln", Some(text)) => Part::text(text),
        ("toolInvocationSerialized" | "toolInvocation", _) => {
            let name = text_of(piece, &["toolId", "toolName"]).unwrap_or_default();
            let mut call = ToolCall::new(name, piece.clone());
            call.id = text_of(piece, &["toolCallId"]).map(str::to_owned);
            if piece["isComplete"].as_bool() == Some(true) {
                call.state = ToolState::Succeeded;
            }
            Part::ToolCall(call)
        }
        (kind, _) => {
            let kind = if kind.is_empty() { "response" } else { kind };
            Part::Unknown { kind: kind.to_owned(), value: piece.clone() }
        }
    }
}

#[cfg(test)]
#[path = "chat_session_tests.rs"]
mod tests;
