//! The only row of a store's `meta` table: the chat's id and its latest root.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::blob_id::BlobId;
use crate::lenient_json;

const AGENT_ID: &str = "agentId";
const LATEST_ROOT: &str = "latestRootBlobId";
const NAME: &str = "name";
const MODE: &str = "mode";
const CREATED_AT: &str = "createdAt";
const LAST_USED_MODEL: &str = "lastUsedModel";
const SUBAGENT: &str = "subagentInfo";
const ENCRYPTION_KEY: &str = "blobEncryptionKey";

/// A chat's meta row. It keeps every key, known or not, in its order and form, so that writing the row back changes
/// only the keys that were set.
///
/// `Debug` and `Serialize` show the encryption key as `"present"`; only [`ChatMeta::to_hex_row`] contains it.
#[derive(Clone, PartialEq)]
pub struct ChatMeta {
    /// A marker takes the place of the encryption key, so that the order survives and printing the map does not show
    /// the secret.
    fields: Map<String, Json>,
    encryption_key: Option<BlobEncryptionKey>,
}

/// The store's secret. Code can store and compare it, but never show it.
#[derive(Clone, PartialEq)]
pub struct BlobEncryptionKey(Json);

/// The pointer to the latest checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LatestRoot {
    /// Empty or missing: there is no checkpoint yet.
    Absent,
    Blob(BlobId),
    /// Not a blob id. Contains the text.
    Malformed(String),
}

impl LatestRoot {
    /// Reads the pointer in a meta row. Without a row there is no checkpoint.
    pub(crate) fn of_row(meta: Option<&ChatMeta>) -> Self {
        meta.map_or(Self::Absent, ChatMeta::latest_root)
    }

    /// The checkpoint, if the pointer is a blob id.
    #[must_use]
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Self::Blob(id) => Some(*id),
            Self::Absent | Self::Malformed(_) => None,
        }
    }
}

/// The conversation that a sub-agent's store belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubagentOrigin {
    pub parent_agent_id: Option<String>,
    pub root_parent_agent_id: Option<String>,
    pub tool_call_id: Option<String>,
    pub type_name: Option<String>,
}

/// Says why a row is not a chat's meta. Never quotes the row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadChatMetaError {
    #[error("the meta row is neither JSON nor the hex digits of JSON")]
    NotHex,
    #[error("the meta row is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("the meta row is JSON, but not an object")]
    NotAnObject,
}

impl BlobEncryptionKey {
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(Json::String(key))
    }
}

const PRESENT: &str = "present";

impl fmt::Debug for BlobEncryptionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PRESENT)
    }
}

impl Serialize for BlobEncryptionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(PRESENT)
    }
}

impl ChatMeta {
    /// Creates the meta row of a chat without a checkpoint, with Cursor's defaults.
    #[must_use]
    pub fn new(agent_id: &str, created_at_ms: i64) -> Self {
        let mut meta = Self { fields: Map::new(), encryption_key: None };
        meta.set(AGENT_ID, agent_id.into());
        meta.set(LATEST_ROOT, "".into());
        meta.set(NAME, "New Agent".into());
        meta.set(MODE, "default".into());
        meta.set(CREATED_AT, created_at_ms.into());
        meta
    }

    /// Reads a row: hex of JSON as every known build writes it, or JSON itself.
    pub fn from_row(row: &[u8]) -> Result<Self, ReadChatMetaError> {
        let row = row.trim_ascii();
        let json = if row.first() == Some(&b'{') {
            lenient_json::parse(row)
        } else {
            lenient_json::parse(&hex::decode(row).map_err(|_| ReadChatMetaError::NotHex)?)
        };
        // Parsed through `Value`, because a type mismatch would quote the text and perhaps the key.
        let Json::Object(fields) = json.map_err(ReadChatMetaError::NotJson)? else {
            return Err(ReadChatMetaError::NotAnObject);
        };
        Ok(Self::from_fields(fields))
    }

    fn from_fields(mut fields: Map<String, Json>) -> Self {
        let encryption_key = fields
            .get_mut(ENCRYPTION_KEY)
            .map(|key| BlobEncryptionKey(std::mem::replace(key, PRESENT.into())));
        Self { fields, encryption_key }
    }

    /// The row as Cursor stores it: lower-case hex of compact JSON. **Contains the encryption key.**
    #[must_use]
    pub fn to_hex_row(&self) -> String {
        let mut fields = self.fields.clone();
        if let Some(BlobEncryptionKey(key)) = &self.encryption_key {
            fields.insert(ENCRYPTION_KEY.to_owned(), key.clone());
        }
        hex::encode(Json::Object(fields).to_string())
    }

    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        self.text(AGENT_ID)
    }

    #[must_use]
    pub fn latest_root(&self) -> LatestRoot {
        match self.fields.get(LATEST_ROOT) {
            None | Some(Json::Null) => LatestRoot::Absent,
            Some(Json::String(text)) if text.is_empty() => LatestRoot::Absent,
            Some(Json::String(text)) => {
                text.parse().map_or_else(|_| LatestRoot::Malformed(text.clone()), LatestRoot::Blob)
            }
            Some(other) => LatestRoot::Malformed(other.to_string()),
        }
    }

    /// The title that Cursor shows.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.text(NAME)
    }

    #[must_use]
    pub fn mode(&self) -> Option<&str> {
        self.text(MODE)
    }

    /// Milliseconds since 1970. The row has a number, or its digits as text.
    #[must_use]
    pub fn created_at_ms(&self) -> Option<i64> {
        lenient_integer(self.fields.get(CREATED_AT)?)
    }

    /// The model. The row has its name, or an object that names it. May be the word `default`.
    #[must_use]
    pub fn last_used_model(&self) -> Option<&str> {
        match self.fields.get(LAST_USED_MODEL)? {
            Json::String(name) => Some(name),
            Json::Object(model) => {
                ["model", "id", "name"].iter().find_map(|key| model.get(*key)?.as_str())
            }
            _ => None,
        }
    }

    #[must_use]
    pub fn encryption_key(&self) -> Option<&BlobEncryptionKey> {
        self.encryption_key.as_ref()
    }

    /// Returns this chat's parent, if the chat belongs to a sub-agent.
    #[must_use]
    pub fn subagent_origin(&self) -> Option<SubagentOrigin> {
        let origin = self.fields.get(SUBAGENT)?.as_object()?;
        let text = |key: &str| origin.get(key).and_then(Json::as_str).map(str::to_owned);
        Some(SubagentOrigin {
            parent_agent_id: text("parentAgentId"),
            root_parent_agent_id: text("rootParentAgentId"),
            tool_call_id: text("toolCallId"),
            type_name: text("typeName"),
        })
    }

    /// Returns every key and value of the row, with a marker in place of the encryption key.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Json> {
        &self.fields
    }

    pub fn set_latest_root(&mut self, root: BlobId) {
        self.set(LATEST_ROOT, root.to_string().into());
    }

    pub fn set_agent_id(&mut self, agent_id: &str) {
        self.set(AGENT_ID, agent_id.into());
    }

    pub fn set_name(&mut self, name: &str) {
        self.set(NAME, name.into());
    }

    pub fn set_mode(&mut self, mode: &str) {
        self.set(MODE, mode.into());
    }

    pub fn set_last_used_model(&mut self, model: &str) {
        self.set(LAST_USED_MODEL, model.into());
    }

    pub fn set_encryption_key(&mut self, key: BlobEncryptionKey) {
        self.fields.insert(ENCRYPTION_KEY.to_owned(), PRESENT.into());
        self.encryption_key = Some(key);
    }

    pub fn set_subagent_origin(&mut self, origin: &SubagentOrigin) {
        let texts = [
            ("parentAgentId", &origin.parent_agent_id),
            ("rootParentAgentId", &origin.root_parent_agent_id),
            ("toolCallId", &origin.tool_call_id),
            ("typeName", &origin.type_name),
        ];
        let object: Map<String, Json> = texts
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), Json::String(text.clone()?))))
            .collect();
        self.set(SUBAGENT, object.into());
    }

    /// Sets any key. Keeps the encryption key out of the map.
    pub fn set(&mut self, key: &str, value: Json) {
        if key == ENCRYPTION_KEY {
            self.set_encryption_key(BlobEncryptionKey(value));
        } else {
            self.fields.insert(key.to_owned(), value);
        }
    }

    /// Removes a key from the row.
    pub fn remove(&mut self, key: &str) {
        self.fields.shift_remove(key);
        if key == ENCRYPTION_KEY {
            self.encryption_key = None;
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key)?.as_str()
    }
}

impl fmt::Debug for ChatMeta {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ChatMeta").field(&self.fields).finish()
    }
}

impl Serialize for ChatMeta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

/// Reads a number, or a string of digits, which some builds are said to write.
pub(crate) fn lenient_integer(json: &Json) -> Option<i64> {
    match json {
        // JavaScript may write a whole number as a double.
        Json::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().map(|double| double as i64))
        }
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
