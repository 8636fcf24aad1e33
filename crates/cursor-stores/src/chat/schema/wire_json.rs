//! Unknown protobuf messages as JSON: field numbers become keys, and texts stay texts.

use serde_json::{Map, Value as Json, json};

use super::wire::{WireValue, next_field};

const MAX_DEPTH: usize = 16;
/// Enough for a message that is shown only because there is nothing better.
const MAX_FIELDS: usize = 4_096;

/// Accepts any bytes. Those that are neither text nor a message are only counted.
pub(crate) fn wire_json(bytes: &[u8]) -> Json {
    let mut n_fields = 0;
    value_of(bytes, 0, &mut n_fields)
}

fn value_of(bytes: &[u8], depth: usize, n_fields: &mut usize) -> Json {
    if let Some(text) = plain_text(bytes) {
        return Json::String(text.to_owned());
    }
    let fields = if depth < MAX_DEPTH { fields_of(bytes, depth, n_fields) } else { None };
    fields.map_or_else(|| json!({ "n_bytes": bytes.len() }), Json::Object)
}

/// A message rarely looks like text: its lengths and numbers are control characters.
fn plain_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain =
        text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{1b}'));
    // A line break at the beginning is more often the tag `0a` of a message than the start of a text.
    (is_plain && !(text.starts_with('\n') && looks_like_message(bytes))).then_some(text)
}

fn looks_like_message(bytes: &[u8]) -> bool {
    matches!(bytes, [0x0a, length, rest @ ..] if usize::from(*length) == rest.len())
}

fn fields_of(mut bytes: &[u8], depth: usize, n_fields: &mut usize) -> Option<Map<String, Json>> {
    let mut fields: Map<String, Json> = Map::new();
    while !bytes.is_empty() {
        *n_fields += 1;
        if *n_fields > MAX_FIELDS {
            return None;
        }
        let field = next_field(&mut bytes)?;
        let value = match field.value {
            WireValue::Number(number) => json!(number),
            WireValue::Bytes(value) => value_of(value, depth + 1, n_fields),
        };
        let number = field.number;
        match fields.get_mut(&number.to_string()) {
            None => drop(fields.insert(number.to_string(), value)),
            Some(Json::Array(values)) => values.push(value),
            Some(known) => *known = json!([known.take(), value]),
        }
    }
    Some(fields)
}

#[cfg(test)]
#[path = "wire_json_tests.rs"]
mod tests;
