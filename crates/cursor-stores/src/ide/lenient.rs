//! Parses rows of JSON, and hides the encryption keys that some of them contain.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::encryption_keys::{ENDING, hide_keys};
pub(super) use crate::json_values::{
    is_blank, is_time, is_true, items, text, text_of, texts, time, tokens, unpack,
};
use crate::lenient_json;

/// Parses JSON leniently. Removes the keys of encrypted blobs, so that no caller can leak them.
pub(super) fn parse(bytes: &[u8]) -> Option<Json> {
    let mut json = lenient_json::parse(bytes).ok()?;
    if memchr::memmem::find(bytes, ENDING.as_bytes()).is_some() {
        hide_keys(&mut json, None);
    }
    Some(json)
}

/// Parses an object, without its blank fields. Bubbles have dozens of those, and only about a dozen others.
pub(super) fn parse_object(bytes: &[u8]) -> Option<Json> {
    let sparse = serde_json::from_slice::<Sparse>(bytes).ok();
    match sparse {
        // Not plain JSON: parse it leniently.
        None => parse(bytes).filter(Json::is_object),
        Some(_) if memchr::memmem::find(bytes, ENDING.as_bytes()).is_some() => parse(bytes),
        Some(Sparse(fields)) => Some(Json::Object(fields)),
    }
}

struct Sparse(serde_json::Map<String, Json>);

impl<'de> Deserialize<'de> for Sparse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SparseVisitor)
    }
}

struct SparseVisitor;

impl<'de> Visitor<'de> for SparseVisitor {
    type Value = Sparse;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Sparse, A::Error> {
        let mut said = serde_json::Map::new();
        while let Some((name, raw)) = fields.next_entry::<Cow<'de, str>, &'de RawValue>()? {
            if !matches!(raw.get(), "[]" | "{}" | "null" | "\"\"") {
                let value = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
                said.insert(name.into_owned(), value);
            }
        }
        Ok(Sparse(said))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_to_encrypted_blobs_are_left_out() {
        let inner = json!({"blobEncryptionKey": "secret", "b": 1}).to_string();
        let json = json!({"a": [{"speculativeSummarizationEncryptionKey": "secret", "c": inner}]})
            .to_string();
        assert_eq!(parse(json.as_bytes()), Some(json!({"a": [{"c": "{\"b\":1}"}]})));
    }

    #[test]
    fn text_with_invalid_utf8_is_still_read() {
        assert_eq!(parse(b"{\"a\":\"\xff\"}"), Some(json!({"a": "\u{fffd}"})));
        assert_eq!(parse(b"{\"a\":"), None);
        assert_eq!(
            parse_object(b"{\"a\":\"\xff\",\"b\":[]}"),
            Some(json!({"a": "\u{fffd}", "b": []}))
        );
    }

    #[test]
    fn blank_fields_are_left_out() {
        let bubble =
            br#"{"a":[],"b":{},"c":null,"d":"","e":0,"f":false,"g":[[]],"h":{"i":"x"},"\u006a":1}"#;
        let said = json!({"e": 0, "f": false, "g": [[]], "h": {"i": "x"}, "j": 1});
        assert_eq!(parse_object(bubble), Some(said));
        assert_eq!(parse_object(br#"{"blobEncryptionKey":"x"}"#), Some(json!({})));
        assert_eq!((parse_object(b"[]"), parse_object(b"{")), (None, None));
    }
}
