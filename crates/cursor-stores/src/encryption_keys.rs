//! Stores keep encryption keys next to messages. The keys must never be shown, found or exported.

use serde_json::Value as Json;

use crate::lenient_json;

/// The name of every field that holds an encryption key ends with this.
pub(crate) const ENDING: &str = "EncryptionKey";

/// True if a field holds an encryption key.
pub(crate) fn is_key(name: &str) -> bool {
    name.ends_with(ENDING)
}

/// True if the bytes name a field that holds a key: in JSON, in broken JSON, or in JSON inside a string.
pub(crate) fn names_a_key(bytes: &[u8]) -> bool {
    memchr::memmem::find_iter(bytes, ENDING).any(|at| {
        let mut rest = bytes[at + ENDING.len()..].iter();
        rest.find(|byte| **byte != b'\\') == Some(&b'"')
    })
}

/// Replaces the values of all keys, or removes their fields. Also looks into JSON inside strings.
pub(crate) fn hide_keys(json: &mut Json, replacement: Option<&str>) {
    match json {
        Json::Object(fields) => {
            match replacement {
                None => fields.retain(|name, _| !is_key(name)),
                Some(replacement) => {
                    let keys = fields.iter_mut().filter(|(name, _)| is_key(name));
                    keys.for_each(|(_, value)| *value = replacement.into());
                }
            }
            fields.values_mut().for_each(|value| hide_keys(value, replacement));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| hide_keys(item, replacement)),
        Json::String(text) if text.contains(ENDING) => {
            if let Ok(mut inner @ (Json::Object(_) | Json::Array(_))) =
                lenient_json::parse(text.as_bytes())
            {
                hide_keys(&mut inner, replacement);
                *text = inner.to_string();
            }
        }
        _ => {}
    }
}
