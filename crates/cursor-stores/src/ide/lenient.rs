//! Reading JSON that was written over years: a field of the wrong type is a field that is not there.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::search::is_secret;

/// Milliseconds before this are no times but counters of a clock that began with the computer.
const EARLIEST_MS: i64 = 100_000_000_000;
const LATEST_MS: i64 = 100_000_000_000_000;

/// Parses JSON, also where its text is not quite UTF-8.
/// The keys to encrypted blobs that stand in it are left out, so that none of them can get out by any way.
pub(super) fn parse(bytes: &[u8]) -> Option<Json> {
    let mut json = serde_json::from_slice(bytes).ok().or_else(|| {
        let text = std::str::from_utf8(bytes).err().map(|_| String::from_utf8_lossy(bytes))?;
        serde_json::from_str(&text).ok()
    })?;
    if memchr::memmem::find(bytes, b"EncryptionKey").is_some() {
        remove_secrets(&mut json);
    }
    Some(json)
}

/// Parses an object without its fields that say nothing. Bubbles have dozens of those, and a dozen others.
pub(super) fn parse_object(bytes: &[u8]) -> Option<Json> {
    let sparse = serde_json::from_slice::<Sparse>(bytes).ok();
    match sparse {
        // What needs a closer look gets it.
        None => parse(bytes).filter(Json::is_object),
        Some(_) if memchr::memmem::find(bytes, b"EncryptionKey").is_some() => parse(bytes),
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

fn remove_secrets(json: &mut Json) {
    match json {
        Json::Object(fields) => {
            fields.retain(|name, _| !is_secret(name));
            fields.values_mut().for_each(remove_secrets);
        }
        Json::Array(items) => items.iter_mut().for_each(remove_secrets),
        // A conversation in a conversation is a string of JSON.
        Json::String(text) if text.contains("EncryptionKey") => {
            if let Ok(mut inner @ (Json::Object(_) | Json::Array(_))) = serde_json::from_str(text) {
                remove_secrets(&mut inner);
                *text = inner.to_string();
            }
        }
        _ => {}
    }
}

/// A value that may be JSON in a string.
pub(super) fn unpack(json: &Json) -> Cow<'_, Json> {
    match json {
        Json::String(text) if text.trim_start().starts_with(['{', '[']) => {
            match serde_json::from_str(text) {
                Ok(inner) => Cow::Owned(inner),
                Err(_) => Cow::Borrowed(json),
            }
        }
        _ => Cow::Borrowed(json),
    }
}

/// A string with something in it.
pub(super) fn text(json: &Json) -> Option<&str> {
    json.as_str().filter(|text| !text.is_empty())
}

/// The first of these fields that is a string with something in it.
pub(super) fn text_of<'a>(json: &'a Json, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| text(json.get(name)?))
}

pub(super) fn items(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The strings of an array.
pub(super) fn texts(json: &Json) -> Vec<String> {
    items(json).iter().filter_map(text).map(str::to_owned).collect()
}

pub(super) fn is_true(json: &Json) -> bool {
    json.as_bool().unwrap_or_else(|| json.as_i64().is_some_and(|number| number != 0))
}

/// Tells whether a value says nothing.
pub(super) fn is_blank(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::String(text) => text.trim().is_empty(),
        Json::Array(items) => items.iter().all(is_blank),
        Json::Object(fields) => fields.values().all(is_blank),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

/// A time in milliseconds since 1970, written as a number or as text.
pub(super) fn time(json: &Json) -> Option<i64> {
    match json {
        Json::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).filter(is_time)
        }
        Json::String(text) => time_of_text(text),
        _ => None,
    }
}

pub(super) fn time_of_text(text: &str) -> Option<i64> {
    match text.parse::<Timestamp>() {
        Ok(time) => Some(time.as_millisecond()),
        Err(_) => text.parse().ok(),
    }
    .filter(is_time)
}

pub(super) fn is_time(at_ms: &i64) -> bool {
    (EARLIEST_MS..LATEST_MS).contains(at_ms)
}

/// A count of tokens; none are not known to be none.
pub(super) fn tokens(json: &Json) -> Option<u64> {
    json.as_u64().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_is_a_number_or_a_text_and_never_a_counter() {
        assert_eq!(time(&json!(1_790_000_000_000_i64)), Some(1_790_000_000_000));
        assert_eq!(time(&json!(1_790_000_000_000.5)), Some(1_790_000_000_000));
        assert_eq!(time(&json!("2026-01-22T00:53:34.189Z")), Some(1_769_043_214_189));
        assert_eq!(time(&json!("1790000000000")), Some(1_790_000_000_000));
        for none in
            [json!(4_745_281.3), json!(0), json!("soon"), json!(null), json!(1e300), json!({})]
        {
            assert_eq!(time(&none), None, "{none}");
        }
    }

    #[test]
    fn keys_to_encrypted_blobs_are_left_out() {
        let inner = json!({"blobEncryptionKey": "secret", "b": 1}).to_string();
        let json = json!({"a": [{"speculativeSummarizationEncryptionKey": "secret", "c": inner}]})
            .to_string();
        assert_eq!(parse(json.as_bytes()), Some(json!({"a": [{"c": "{\"b\":1}"}]})));
    }

    #[test]
    fn text_that_is_not_quite_utf8_is_still_read() {
        assert_eq!(parse(b"{\"a\":\"\xff\"}"), Some(json!({"a": "\u{fffd}"})));
        assert_eq!(parse(b"{\"a\":"), None);
        assert_eq!(
            parse_object(b"{\"a\":\"\xff\",\"b\":[]}"),
            Some(json!({"a": "\u{fffd}", "b": []}))
        );
    }

    #[test]
    fn fields_that_say_nothing_are_left_out() {
        let bubble =
            br#"{"a":[],"b":{},"c":null,"d":"","e":0,"f":false,"g":[[]],"h":{"i":"x"},"\u006a":1}"#;
        let said = json!({"e": 0, "f": false, "g": [[]], "h": {"i": "x"}, "j": 1});
        assert_eq!(parse_object(bubble), Some(said));
        assert_eq!(parse_object(br#"{"blobEncryptionKey":"x"}"#), Some(json!({})));
        assert_eq!((parse_object(b"[]"), parse_object(b"{")), (None, None));
    }
}
