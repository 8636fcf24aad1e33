//! One `store.db`, blob by blob.

use std::path::{Path, PathBuf};

use prost::Message;
use rusqlite::Connection;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::{Closing, close, open_writer};

/// Writes a store. Ids are the 32 bytes of a hash, as messages refer to them.
pub struct StoreWriter {
    connection: Connection,
    path: PathBuf,
    meta: Map<String, Json>,
}

/// How the meta row is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaForm {
    /// The hex digits of JSON, as text: what all builds write.
    Hex,
    HexBlob,
    Json,
    JsonBlob,
}

impl StoreWriter {
    /// Makes `store.db` in a directory.
    pub fn create(directory: &Path, agent_id: &str, created_ms: i64) -> Self {
        let path = directory.join("store.db");
        let connection = open_writer(&path);
        connection
            .execute_batch(
                "PRAGMA user_version = 1;
                 CREATE TABLE IF NOT EXISTS blobs (id TEXT PRIMARY KEY, data BLOB);
                 CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);",
            )
            .unwrap();
        let mut meta = Map::new();
        meta.insert("agentId".to_owned(), agent_id.into());
        meta.insert("latestRootBlobId".to_owned(), "".into());
        meta.insert("name".to_owned(), "New Agent".into());
        meta.insert("mode".to_owned(), "default".into());
        meta.insert("createdAt".to_owned(), created_ms.into());
        Self { connection, path, meta }
    }

    /// Sets a key of the meta row; it is written with the next root, or by [`Self::put_meta`].
    pub fn set_meta(&mut self, key: &str, value: impl Into<Json>) {
        self.meta.insert(key.to_owned(), value.into());
    }

    /// Writes a blob under its own id.
    pub fn put(&self, data: &[u8]) -> Vec<u8> {
        let id = Sha256::digest(data).to_vec();
        self.put_as(&id, data);
        id
    }

    /// Writes a blob under any id.
    pub fn put_as(&self, id: &[u8], data: &[u8]) {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, ?2)")
            .unwrap()
            .execute((hex::encode(id), data))
            .unwrap();
    }

    pub fn put_json(&self, json: &Json) -> Vec<u8> {
        self.put(json.to_string().as_bytes())
    }

    pub fn put_message(&self, message: &impl Message) -> Vec<u8> {
        self.put(&message.encode_to_vec())
    }

    /// Writes a root and makes it the latest.
    pub fn put_root(&mut self, root: &impl Message) -> Vec<u8> {
        let id = self.put_message(root);
        self.set_meta("latestRootBlobId", hex::encode(&id));
        self.put_meta(MetaForm::Hex);
        id
    }

    pub fn put_meta(&self, form: MetaForm) {
        use rusqlite::types::Value;
        let json = Json::Object(self.meta.clone()).to_string();
        let value = match form {
            MetaForm::Hex => Value::Text(hex::encode(json)),
            MetaForm::HexBlob => Value::Blob(hex::encode(json).into_bytes()),
            MetaForm::Json => Value::Text(json),
            MetaForm::JsonBlob => Value::Blob(json.into_bytes()),
        };
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('0', ?1)", [value])
            .unwrap();
    }

    /// The database itself, for anything else.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn close(self, closing: Closing) {
        close(self.connection, &self.path, closing);
    }
}
