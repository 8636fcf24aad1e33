//! Messages of protobuf whose fields are not known, as JSON: numbers of fields for names, texts as they are.

use serde_json::{Map, Value as Json, json};

use super::wire::{WireValue, next_field};

const MAX_DEPTH: usize = 16;
/// Of a message that is shown because nothing better is there.
const MAX_FIELDS: usize = 4_096;

/// Reads any bytes. What is neither text nor a message is only counted.
pub(super) fn wire_json(bytes: &[u8]) -> Json {
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
    // One line break is more often the beginning of a message, `0a`, than that of a text.
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
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::wire_json;

    #[test]
    fn texts_and_numbers_of_an_unknown_message_are_shown() {
        // {1: "src", 2: {1: "a", 1: "b"}, 3: 300, 4: bytes}
        let bytes = b"\x0a\x03src\x12\x06\x0a\x01a\x0a\x01b\x18\xac\x02\x22\x02\xff\x00";
        assert_eq!(
            wire_json(bytes),
            json!({"1": "src", "2": {"1": ["a", "b"]}, "3": 300, "4": {"n_bytes": 2}})
        );
        assert_eq!(wire_json(b"just text"), json!("just text"));
        assert_eq!(wire_json(b"\x0a\x04word"), json!({"1": "word"}));
        assert_eq!(wire_json(b""), json!(""));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            wire_json(&bytes);
        }
    }
}
