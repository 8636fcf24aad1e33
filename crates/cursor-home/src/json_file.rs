//! Writes JSON files in Caretaker's form: indented for people, with a final newline.

use serde_json::Value;

pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}");
    text.push('\n');
    text.into_bytes()
}
