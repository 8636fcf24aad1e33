//! One bubble of an old chat or composer as a message.

use serde_json::Value as Json;

use crate::ide::{attachments, name_of, tool_call};
use crate::json_values::{items, text_of, time, unpack};
use crate::model::{Message, Moment, Part, Role};
use crate::text::editor_text::text_of_editor;

/// Reads a bubble. `tool` is its tool call, if the composer keeps it elsewhere.
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
        // Most code blocks are in the text as well.
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
    let call = tool_call(&unpack(&bubble["toolFormerData"])).or_else(|| tool.and_then(tool_call));
    message.parts.extend(call.map(Part::ToolCall));
    message.parts.extend(attachments(bubble));
    message
}

/// The text that the user typed or the model answered. Builds keep it in several of these fields.
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

pub(super) fn moment(value: &Json) -> Option<Moment> {
    time(value).map(Moment::recorded)
}

#[cfg(test)]
#[path = "bubble_tests.rs"]
mod tests;
