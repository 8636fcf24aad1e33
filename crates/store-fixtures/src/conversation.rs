//! Conversations as values, for tests of views and exports.

use cursor_stores::model::{Conversation, Part, ToolCall};
use serde_json::{Value, json};

/// 2026-07-01 09:30 UTC.
pub const BEGAN_MS: i64 = 1_782_898_200_000;
/// The id of [`rich`].
pub const RICH_ID: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";

/// A conversation where every field has a value and every kind of part occurs.
#[must_use]
pub fn rich() -> Conversation {
    serde_json::from_str(include_str!("rich.json")).unwrap()
}

/// Like [`rich`], but every free text ends with `text`, and each tool call has an extra argument with that name.
#[must_use]
pub fn rich_with_everywhere(text: &str) -> Conversation {
    let mut whole = serde_json::to_value(rich()).unwrap();
    let mut places = Vec::new();
    strings(&whole, &mut String::new(), &mut places);
    let mut n_changed = 0;
    for place in &places {
        let Some(Value::String(value)) = whole.pointer_mut(place) else { continue };
        let before = value.clone();
        value.push_str(text);
        // This is one of the model's own words, such as a role, which cannot change.
        if serde_json::from_value::<Conversation>(whole.clone()).is_err() {
            *whole.pointer_mut(place).unwrap() = Value::String(before);
        } else {
            n_changed += 1;
        }
    }
    assert!(n_changed > 50, "only {n_changed} fields hold text");
    let mut conversation: Conversation = serde_json::from_value(whole).unwrap();
    for part in conversation.messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolCall(ToolCall { input: Value::Object(fields), .. }) = part {
            fields.insert(text.to_owned(), json!([text, {text: text}]));
        }
    }
    conversation.also_kept.insert(text.to_owned(), 1);
    conversation
}

fn strings(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(name);
        strings(value, at, places);
        at.truncate(length);
    };
    match value {
        Value::String(_) => places.push(at.clone()),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| below(&n.to_string(), value));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        _ => {}
    }
}
