//! One bubble of an old chat or composer as a message.

use serde_json::Value as Json;

use super::lexical::text_of_editor;
use crate::lenient_json;
use crate::model::{Message, Moment, Part, Role, ToolCall, ToolResult, ToolState};

/// Numbers that are smaller are no times: clocks of some builds count from when the IDE was started.
const EARLIEST_MS: f64 = 1e11;
const LATEST_MS: f64 = 1e14;

/// Reads a bubble. `tool` is what a composer keeps of it elsewhere.
pub(super) fn decode_bubble(bubble: &Json, tool: Option<&Json>) -> Message {
    let Json::Object(_) = bubble else {
        let part = Part::Unknown { kind: "bubble".to_owned(), value: bubble.clone() };
        return Message::new(Role::Unknown, vec![part]);
    };
    let role = match (bubble["type"].as_i64(), bubble["type"].as_str()) {
        (Some(1), _) | (_, Some("user")) => Role::User,
        (Some(2), _) | (_, Some("ai" | "assistant")) => Role::Assistant,
        _ => Role::Unknown,
    };
    let mut message = Message::new(role, Vec::new());
    message.id = text_of(bubble, &["bubbleId", "id"]).map(str::to_owned);
    message.model = text_of(bubble, &["modelType"]).map(str::to_owned);
    message.at = ["createdAt", "timestamp"]
        .iter()
        .find_map(|name| moment(&bubble[name]))
        .or_else(|| moment(&bubble["timingInfo"]["clientStartTime"]));
    if let Some(thought) = text_of(&bubble["thinking"], &["text"]).or(bubble["thinking"].as_str()) {
        message.parts.push(Part::reasoning(thought));
    }
    let said = said(bubble, role);
    if !said.is_empty() {
        message.parts.push(Part::text(said.clone()));
    }
    for block in items(&bubble["codeBlocks"]) {
        // Most of them stand in the text as well.
        if let Some(code) =
            text_of(block, &["content", "code"]).filter(|code| !said.contains(*code))
        {
            message.parts.push(Part::Code {
                language: text_of(block, &["languageId", "language"]).map(str::to_owned),
                path: name_of(block),
                text: code.to_owned(),
            });
        }
    }
    message.parts.extend(tool_call(&bubble["toolFormerData"]).or_else(|| tool.and_then(tool_call)));
    message.parts.extend(attachments(bubble));
    message.parts.extend(images(bubble));
    message
}

/// What was typed or answered. The same text is kept several times, and not by all builds in all of these places.
fn said(bubble: &Json, role: Role) -> String {
    let plain = |name: &str| bubble[name].as_str().unwrap_or_default().to_owned();
    let typed = || bubble["delegate"]["a"].as_str().unwrap_or_default().to_owned();
    let edited = |name: &str| text_of_editor(&bubble[name]);
    let candidates: [&dyn Fn() -> String; 5] = match role {
        Role::User => {
            [&typed, &|| plain("text"), &|| edited("initText"), &|| edited("richText"), &|| {
                plain("rawText")
            }]
        }
        _ => [
            &|| plain("rawText"),
            &|| plain("text"),
            &|| edited("richText"),
            &|| edited("initText"),
            &typed,
        ],
    };
    let text = candidates.iter().map(|candidate| candidate()).find(|text| !text.trim().is_empty());
    text.unwrap_or_default()
}

fn tool_call(data: &Json) -> Option<Part> {
    if !data.is_object() {
        return None;
    }
    let name = text_of(data, &["name"]).unwrap_or_default();
    let input = ["params", "rawArgs", "args"].iter().map(|name| unpack(&data[name]));
    let mut call =
        ToolCall::new(name, input.into_iter().find(|input| !is_blank(input)).unwrap_or_default());
    call.id = text_of(data, &["toolCallId"]).map(str::to_owned);
    let status =
        text_of(data, &["status"]).or_else(|| text_of(&data["additionalData"], &["status"]));
    call.state = match (status, data["userDecision"].as_str()) {
        (_, Some("rejected")) => ToolState::Rejected,
        (Some("completed" | "success"), _) => ToolState::Succeeded,
        (Some("error" | "failed"), _) => ToolState::Failed,
        (Some("cancelled"), _) => ToolState::Cancelled,
        (Some("loading" | "pending" | "running"), _) => ToolState::Pending,
        _ => ToolState::Unknown,
    };
    let output = unpack(&data["result"]);
    let error = match &data["error"] {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => {
            Some(text_of(other, &["message"]).map_or_else(|| other.to_string(), str::to_owned))
        }
    };
    if !is_blank(&output) || error.is_some() {
        call.result = Some(ToolResult { output, error, is_truncated: false });
    }
    let is_empty = name.is_empty() && call.input.is_null() && call.result.is_none();
    (!is_empty || call.state != ToolState::Unknown).then_some(Part::ToolCall(call))
}

/// Fields that hold what was attached, and what that is.
const ATTACHMENTS: [(&str, &str); 9] = [
    ("selections", "selection"),
    ("codeSelections", "selection"),
    ("fileSelections", "file"),
    ("folderSelections", "folder"),
    ("selectedDocs", "doc"),
    ("docSelections", "doc"),
    ("codeChunks", "code"),
    ("terminalSelections", "terminal"),
    ("attachedCodeChunks", "code"),
];

fn attachments(bubble: &Json) -> impl Iterator<Item = Part> {
    let places = [bubble, &bubble["context"]];
    places
        .into_iter()
        .flat_map(|place| ATTACHMENTS.map(|(field, kind)| (&place[field], kind)))
        .flat_map(|(attached, kind)| {
            items(attached).iter().filter(|item| !is_blank(item)).map(move |item| {
                let text = text_of(item, &["text", "rawText", "content", "code"]);
                Part::Attachment {
                    kind: kind.to_owned(),
                    name: name_of(item),
                    text: text
                        .or(item.as_str())
                        .map_or_else(|| lines_of(item), |text| Some(text.to_owned())),
                }
            })
        })
}

fn lines_of(item: &Json) -> Option<String> {
    let lines: Vec<&str> = items(&item["lines"]).iter().filter_map(Json::as_str).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn images(bubble: &Json) -> impl Iterator<Item = Part> {
    let many = items(&bubble["images"]).iter();
    std::iter::once(&bubble["image"]).chain(many).filter_map(|image| {
        let path = text_of(image, &["path", "uuid"]).or(image.as_str())?;
        Some(Part::Image { media_type: None, path: Some(path.to_owned()), n_bytes: None })
    })
}

/// What a thing is called: the path of its file, or its own name.
fn name_of(item: &Json) -> Option<String> {
    let uri = &item["uri"];
    text_of(uri, &["fsPath", "path", "external"])
        .or(uri.as_str())
        .or_else(|| text_of(item, &["relativeWorkspacePath", "path", "name", "title", "docId"]))
        .map(str::to_owned)
}

/// The first of these fields that is a text with something in it.
pub(super) fn text_of<'a>(value: &'a Json, names: &[&str]) -> Option<&'a str> {
    names.iter().filter_map(|name| value[name].as_str()).find(|text| !text.is_empty())
}

pub(super) fn items(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A time as a number of milliseconds, also where that is a text.
pub(super) fn moment(value: &Json) -> Option<Moment> {
    let ms = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    #[expect(clippy::cast_possible_truncation, reason = "it lies between two small numbers")]
    (EARLIEST_MS..LATEST_MS).contains(&ms).then(|| Moment::recorded(ms as i64))
}

/// JSON that is kept as a text.
pub(super) fn unpack(value: &Json) -> Json {
    match value {
        Json::String(text) => match lenient_json::parse(text.as_bytes()) {
            Ok(inner @ (Json::Object(_) | Json::Array(_))) => inner,
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

fn is_blank(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

#[cfg(test)]
#[path = "bubble_tests.rs"]
mod tests;
