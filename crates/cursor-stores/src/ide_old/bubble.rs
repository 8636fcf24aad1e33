//! One bubble of an old chat or composer as a message.

use serde_json::{Value as Json, json};

use crate::ide::read_bubble;
use crate::json_values::{is_blank, time};
use crate::model::{Message, Moment, Part, Role};
use crate::text::editor_text::text_of_editor;

/// Reads a bubble. `tool` is its tool call, if the composer keeps it elsewhere.
pub(super) fn decode_bubble(bubble: &Json, tool: Option<&Json>) -> Message {
    let Json::Object(_) = bubble else {
        let part = Part::Unknown { kind: "bubble".to_owned(), value: bubble.clone() };
        return Message::new(Role::Unknown, vec![part]);
    };
    let mut bubble = bubble.clone();
    bubble["text"] = said(&bubble).into();
    if let Some(tool) = tool.filter(|_| is_blank(&bubble["toolFormerData"])) {
        bubble["toolFormerData"] = tool.clone();
    }
    read_bubble(&bubble, &json!({"bubbleId": bubble["id"]})).message
}

/// The user's text or the model's answer. Builds differ in which of these fields they use.
fn said(bubble: &Json) -> String {
    let fields = match (bubble["type"].as_i64(), bubble["type"].as_str()) {
        (Some(1), _) | (_, Some("user")) => ["delegate", "text", "initText", "richText", "rawText"],
        _ => ["rawText", "text", "richText", "initText", "delegate"],
    };
    let text_of = |name: &&str| match *name {
        "delegate" => bubble["delegate"]["a"].as_str().unwrap_or_default().to_owned(),
        "text" | "rawText" => bubble[*name].as_str().unwrap_or_default().to_owned(),
        name => text_of_editor(&bubble[name]),
    };
    fields.iter().map(text_of).find(|text| !text.trim().is_empty()).unwrap_or_default()
}

pub(super) fn moment(value: &Json) -> Option<Moment> {
    time(value).map(Moment::recorded)
}

#[cfg(test)]
#[path = "bubble_tests.rs"]
mod tests;
