//! Reads JSON values written by many versions of Cursor. A field of the wrong type counts as missing.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::lenient_json;

/// Smaller numbers are not dates. They come from a clock that started with the computer.
const EARLIEST_MS: i64 = 100_000_000_000;
const LATEST_MS: i64 = 100_000_000_000_000;

/// Returns the value, parsed if it is JSON in a string.
pub(crate) fn unpack(json: &Json) -> Cow<'_, Json> {
    match json {
        Json::String(text) if text.trim_start().starts_with(['{', '[']) => {
            match lenient_json::parse(text.as_bytes()) {
                Ok(inner) => Cow::Owned(inner),
                Err(_) => Cow::Borrowed(json),
            }
        }
        _ => Cow::Borrowed(json),
    }
}

/// Returns a string, unless it is empty.
pub(crate) fn text(json: &Json) -> Option<&str> {
    json.as_str().filter(|text| !text.is_empty())
}

/// Returns the first of these fields that is a non-empty string.
pub(crate) fn text_of<'a>(json: &'a Json, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| text(json.get(name)?))
}

pub(crate) fn items(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the non-empty strings of an array.
pub(crate) fn texts(json: &Json) -> Vec<String> {
    items(json).iter().filter_map(text).map(str::to_owned).collect()
}

pub(crate) fn is_true(json: &Json) -> bool {
    json.as_bool().unwrap_or_else(|| json.as_i64().is_some_and(|number| number != 0))
}

/// True if a value has no content.
pub(crate) fn is_blank(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::String(text) => text.trim().is_empty(),
        Json::Array(items) => items.iter().all(is_blank),
        Json::Object(fields) => fields.values().all(is_blank),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Reads a time in milliseconds since 1970, written as a number or as text.
pub(crate) fn time(json: &Json) -> Option<i64> {
    match json {
        Json::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).filter(is_time)
        }
        Json::String(text) => time_of_text(text),
        _ => None,
    }
}

pub(crate) fn time_of_text(text: &str) -> Option<i64> {
    match text.parse::<Timestamp>() {
        Ok(time) => Some(time.as_millisecond()),
        Err(_) => text.parse().ok(),
    }
    .filter(is_time)
}

pub(crate) fn is_time(at_ms: &i64) -> bool {
    (EARLIEST_MS..LATEST_MS).contains(at_ms)
}

/// Reads a token count. Zero means that the store does not know.
pub(crate) fn tokens(json: &Json) -> Option<u64> {
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
    fn json_in_a_string_is_unpacked_even_with_half_a_surrogate_pair_in_it() {
        assert_eq!(*unpack(&json!("{\"a\":\"\\ud83d\"}")), json!({"a": "\u{fffd}"}));
        assert_eq!(*unpack(&json!("{no")), json!("{no"));
        assert_eq!(*unpack(&json!("7")), json!("7"));
    }
}
