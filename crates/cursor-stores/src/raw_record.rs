//! A conversation's records as its store keeps them, for users who want to see a reader's input.
//!
//! **Invariant:** no record contains the value of an encryption key.

use std::ops::ControlFlow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusqlite::types::ValueRef;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::encryption_keys::{hide_keys, names_a_key};
use crate::lenient_json;

/// One record: a row, a blob, or a line of a file.
#[derive(Debug, Clone, Serialize)]
pub struct RawRecord {
    /// The place of the record in its store, such as `blobs/<id>` or `cursorDiskKV/bubbleId:<composer>:<bubble>`.
    pub record: String,
    /// The field of another record that refers to this one, such as `turns[3]`, if nothing else says what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(flatten)]
    pub content: RawContent,
}

/// The content of a record.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RawContent {
    /// The JSON as it was written, without encryption keys.
    Json(Box<RawValue>),
    Text(String),
    #[serde(serialize_with = "as_base64")]
    Base64(Vec<u8>),
    /// Cursor deleted the value and left its key.
    Deleted(bool),
    /// Why the content is missing.
    LeftOut(String),
}

/// Gets each record, until it returns `Break`.
pub type VisitRaw<'a> = dyn FnMut(RawRecord) -> ControlFlow<()> + 'a;

/// Stands in for the value of an encryption key.
const PRESENT: &str = "present";

impl RawRecord {
    pub(crate) fn new(record: impl Into<String>, content: RawContent) -> Self {
        Self { record: record.into(), field: None, content }
    }

    pub(crate) fn of_bytes(record: impl Into<String>, bytes: &[u8]) -> Self {
        Self::new(record, RawContent::of_bytes(bytes))
    }

    pub(crate) fn of_json(record: impl Into<String>, json: Json) -> Self {
        Self::new(record, RawContent::of_json(json))
    }
}

impl RawContent {
    /// Returns JSON if the bytes are JSON, else text if they are text, else base64.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let may_be_secret = names_a_key(bytes);
        if matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
            // Each record is printed on one line, so it must not contain a line break.
            let is_one_line = !bytes.contains(&b'\n') && !bytes.contains(&b'\r');
            if is_one_line
                && !may_be_secret
                && let Ok(json) = serde_json::from_slice::<Box<RawValue>>(bytes)
            {
                return Self::Json(json);
            }
            if let Ok(json) = lenient_json::parse(bytes) {
                return Self::of_json(json);
            }
        }
        if may_be_secret {
            return Self::LeftOut("it is not JSON, and may hold a key".to_owned());
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text.to_owned()),
            _ => Self::Base64(bytes.to_vec()),
        }
    }

    pub(crate) fn of_json(mut json: Json) -> Self {
        hide_keys(&mut json, Some(PRESENT));
        match serde_json::value::to_raw_value(&json) {
            Ok(json) => Self::Json(json),
            Err(err) => Self::LeftOut(err.to_string()),
        }
    }
}

/// Converts a database value to JSON. Bytes that are not text become base64.
pub(crate) fn json_of_sql(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => STANDARD.encode(bytes).into(),
        },
    }
}

fn as_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn line(bytes: &[u8]) -> String {
        serde_json::to_string(&RawRecord::of_bytes("r", bytes)).unwrap()
    }

    #[test]
    fn json_is_kept_unchanged_and_anything_else_becomes_text_or_base64() {
        let json = br#"{"b": 1.0, "a":"\u0061", "a":12345678901234567890123}"#;
        let kept = format!(r#"{{"record":"r","json":{}}}"#, std::str::from_utf8(json).unwrap());
        assert_eq!(line(json), kept);
        assert_eq!(line(b"{\n\"a\": 1\n}"), r#"{"record":"r","json":{"a":1}}"#);
        assert_eq!(line(b"{broken"), r#"{"record":"r","text":"{broken"}"#);
        assert_eq!(line(b"\x0a\x20\xff"), r#"{"record":"r","base64":"CiD/"}"#);
    }

    #[test]
    fn no_record_contains_a_key_however_deep_or_broken_the_json_is() {
        let inner = r#"{"blobEncryptionKey":"5ec2e7"}"#;
        let deeper = serde_json::to_string(inner).unwrap();
        for bytes in [
            inner.to_owned(),
            format!(r#"{{"a":[{inner}],"speculativeEncryptionKey":"5ec2e7"}}"#),
            format!(r#"{{"a":{deeper}}}"#),
            format!(r#"{{"a":{}}}"#, serde_json::to_string(&format!("[{deeper}]")).unwrap()),
            inner[..inner.len() - 1].to_owned(),
            format!("\0{inner}"),
            format!(r#"{{"a":{deeper}"#),
        ] {
            let line = line(bytes.as_bytes());
            assert!(!line.contains("5ec2e7"), "{line}");
        }
        // A text that mentions keys contains no secret.
        let spoken = br#"{"text":"what is a blobEncryptionKey?"}"#;
        assert!(line(spoken).contains("what is a blobEncryptionKey?"));
    }
}
