//! The `meta.json` next to a store: when the session began, its title, and its workspace.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::meta::lenient_integer;
use crate::lenient_json;
use crate::plain_file::{self, PlainFileError};

/// The content of `meta.json`. A chat has all but the last two fields; an ACP session has only version, `cwd` and
/// title.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionMetaFile {
    pub schema_version: Option<i64>,
    pub created_at_ms: Option<i64>,
    pub has_conversation: Option<bool>,
    pub updated_at_ms: Option<i64>,
    /// The workspace. No other file records it directly.
    pub cwd: Option<String>,
    pub title: Option<String>,
    pub is_subagent: Option<bool>,
    /// Unknown keys, and known keys whose values have an unexpected type.
    pub other: Map<String, Json>,
}

/// Says why a `meta.json` could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadSessionMetaError {
    #[error("the session's meta.json cannot be read")]
    File(#[from] PlainFileError),
    #[error("the session's meta.json is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("the session's meta.json is JSON, but not an object")]
    NotAnObject,
}

/// A real file is about a hundred bytes long.
const MAX_BYTES: u64 = 1024 * 1024;

impl SessionMetaFile {
    /// Reads a plain file. Rejects anything else without opening it.
    pub fn read(path: &Path) -> Result<Self, ReadSessionMetaError> {
        Self::parse(&plain_file::read_at_most(path, MAX_BYTES)?)
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, ReadSessionMetaError> {
        let Json::Object(mut fields) =
            lenient_json::parse_as(bytes).map_err(ReadSessionMetaError::NotJson)?
        else {
            return Err(ReadSessionMetaError::NotAnObject);
        };
        Ok(Self {
            schema_version: take(&mut fields, "schemaVersion", lenient_integer),
            created_at_ms: take(&mut fields, "createdAtMs", lenient_integer),
            has_conversation: take(&mut fields, "hasConversation", Json::as_bool),
            updated_at_ms: take(&mut fields, "updatedAtMs", lenient_integer),
            cwd: take(&mut fields, "cwd", owned_text),
            title: take(&mut fields, "title", owned_text),
            is_subagent: take(&mut fields, "isSubagent", Json::as_bool),
            other: fields,
        })
    }

    /// Returns the file's text, with the keys in Cursor's order.
    #[must_use]
    pub fn to_json(&self) -> String {
        let known = [
            ("schemaVersion", self.schema_version.map(Json::from)),
            ("createdAtMs", self.created_at_ms.map(Json::from)),
            ("hasConversation", self.has_conversation.map(Json::from)),
            ("updatedAtMs", self.updated_at_ms.map(Json::from)),
            ("cwd", self.cwd.clone().map(Json::from)),
            ("title", self.title.clone().map(Json::from)),
            ("isSubagent", self.is_subagent.map(Json::from)),
        ];
        let mut fields: Map<String, Json> =
            known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        for (key, value) in &self.other {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Json::Object(fields).to_string()
    }
}

/// Takes a key out of the map if its value has the right type. Otherwise leaves it there.
fn take<T>(
    fields: &mut Map<String, Json>,
    key: &str,
    read: impl Fn(&Json) -> Option<T>,
) -> Option<T> {
    let value = read(fields.get(key)?)?;
    fields.shift_remove(key);
    Some(value)
}

fn owned_text(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

#[cfg(test)]
#[path = "session_meta_file_tests.rs"]
mod tests;
