//! Bytes inside JSON: counted, never copied.

use serde_json::{Map, Value as Json};

/// The number of bytes that a value encodes as `{"__type":"Uint8Array","hex":…}` or base64.
pub(crate) fn n_bytes_of(value: &Json) -> Option<u64> {
    match value {
        Json::Object(fields) => uint8_array_length(fields),
        Json::String(text) => {
            let digits = text.split_once(";base64,").map_or(text.as_str(), |(_, digits)| digits);
            looks_like_base64(digits).then(|| {
                let n_digits = digits.trim_end_matches('=').len() as u64;
                n_digits * 3 / 4
            })
        }
        _ => None,
    }
}

fn uint8_array_length(fields: &Map<String, Json>) -> Option<u64> {
    let is_bytes = fields.get("__type").and_then(Json::as_str) == Some("Uint8Array");
    let hex = fields.get("hex").and_then(Json::as_str).filter(|_| is_bytes)?;
    Some(hex.len() as u64 / 2)
}

/// Prose of this length would contain a space.
fn looks_like_base64(text: &str) -> bool {
    text.len() >= 64
        && text.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
        })
}

/// Replaces encoded bytes with their number, at any depth. The parser limits the depth of a value.
pub(crate) fn without_bytes(value: Json) -> Json {
    match value {
        Json::Object(fields) => match uint8_array_length(&fields) {
            Some(n_bytes) => serde_json::json!({ "__type": "Uint8Array", "n_bytes": n_bytes }),
            None => Json::Object(
                fields.into_iter().map(|(name, value)| (name, without_bytes(value))).collect(),
            ),
        },
        Json::Array(values) => Json::Array(values.into_iter().map(without_bytes).collect()),
        other => other,
    }
}
