//! The one row of a store's `meta` table: who the chat is and which blob is its latest root.

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
const IS_RUN_EVERYTHING: &str = "isRunEverything";
const APPROVAL_MODE: &str = "approvalMode";
const SUBAGENT: &str = "subagentInfo";
const ENCRYPTION_KEY: &str = "blobEncryptionKey";

/// What is known of a chat. Every key of the row is kept, known or not, in its order and form, so that writing the
/// row back changes only what was set.
///
/// `Debug` and `Serialize` show the encryption key as `"present"`; only [`ChatMeta::to_hex_row`] contains it.
#[derive(Clone, PartialEq)]
pub struct ChatMeta {
    /// The key's place is held by a marker, so that its order survives and no printing of this map shows it.
    fields: Map<String, Json>,
    encryption_key: Option<BlobEncryptionKey>,
}

/// A secret of the store. It can be put into a row and compared, never shown.
#[derive(Clone, PartialEq)]
pub struct BlobEncryptionKey(Json);

/// Where the conversation starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LatestRoot {
    /// Empty or not there at all: nothing was checkpointed yet.
    Absent,
    Blob(BlobId),
    /// Not a blob id; the text as it stands.
    Malformed(String),
}

/// What the store of a subagent says about where it belongs.
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
    /// Returns the meta of a chat that has nothing checkpointed yet, with Cursor's defaults.
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
        // Through `Value`, because a mismatch of types would quote the text and with it perhaps the key.
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

    /// Returns the row as Cursor stores it: lower-case hex of compact JSON. **Contains the encryption key.**
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

    /// The title Cursor shows.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.text(NAME)
    }

    #[must_use]
    pub fn mode(&self) -> Option<&str> {
        self.text(MODE)
    }

    /// Milliseconds since 1970, whether the row has a number or its digits.
    #[must_use]
    pub fn created_at_ms(&self) -> Option<i64> {
        lenient_integer(self.fields.get(CREATED_AT)?)
    }

    /// The model, whether the row has its name or an object that names it. May be the word `default`.
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
    pub fn is_run_everything(&self) -> Option<bool> {
        self.fields.get(IS_RUN_EVERYTHING)?.as_bool()
    }

    #[must_use]
    pub fn approval_mode(&self) -> Option<&str> {
        self.text(APPROVAL_MODE)
    }

    #[must_use]
    pub fn encryption_key(&self) -> Option<&BlobEncryptionKey> {
        self.encryption_key.as_ref()
    }

    /// Returns where this chat belongs, if it is that of a subagent.
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

    /// Returns every key and value of the row, the encryption key replaced by a marker.
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

    /// Sets any key. The encryption key is taken out of sight here too.
    pub fn set(&mut self, key: &str, value: Json) {
        if key == ENCRYPTION_KEY {
            self.set_encryption_key(BlobEncryptionKey(value));
        } else {
            self.fields.insert(key.to_owned(), value);
        }
    }

    /// Takes a key out of the row.
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

/// Reads a number, or a string of its digits: some builds are said to write the latter.
pub(super) fn lenient_integer(json: &Json) -> Option<i64> {
    match json {
        // A double, because JavaScript may write a whole number as one.
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
