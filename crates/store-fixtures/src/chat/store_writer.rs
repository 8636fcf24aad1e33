//! One `store.db`, blob by blob.

use std::path::{Path, PathBuf};

use cursor_stores::chat::{ChatMeta, WritableStore};
use prost::Message;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::Value as Json;

use crate::{Closing, close};

/// Writes a store. Ids are the 32 bytes of a hash, the form in which messages refer to them.
pub struct StoreWriter {
    store: WritableStore,
    path: PathBuf,
    meta: ChatMeta,
}

/// The form of the meta row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaForm {
    /// The hex digits of JSON, as text. All builds write this.
    Hex,
    HexBlob,
    Json,
    JsonBlob,
}

impl StoreWriter {
    /// Creates `store.db` in a directory.
    pub fn create(directory: &Path, agent_id: &str, created_ms: i64) -> Self {
        std::fs::create_dir_all(directory).unwrap();
        let path = directory.join("store.db");
        let store = WritableStore::open(&path).unwrap();
        Self { store, path, meta: ChatMeta::new(agent_id, created_ms) }
    }

    /// Sets a key of the meta row. [`Self::put_root`] and [`Self::put_meta`] write the row.
    pub fn set_meta(&mut self, key: &str, value: impl Into<Json>) {
        self.meta.set(key, value.into());
    }

    /// Writes a blob under its own id.
    pub fn put(&self, data: &[u8]) -> Vec<u8> {
        self.store.put(data).unwrap().to_vec()
    }

    /// Writes a blob under any id.
    pub fn put_as(&self, id: &[u8], data: &[u8]) {
        self.store.put_as(&hex::encode(id), data).unwrap();
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
        let hex = self.meta.to_hex_row();
        let json = hex::decode(&hex).unwrap();
        let row = match form {
            MetaForm::Hex => Value::Text(hex),
            MetaForm::HexBlob => Value::Blob(hex.into_bytes()),
            MetaForm::Json => Value::Text(String::from_utf8(json).unwrap()),
            MetaForm::JsonBlob => Value::Blob(json),
        };
        self.store.put_meta(row).unwrap();
    }

    /// Returns the database itself, for everything else.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.store
    }

    pub fn close(self, closing: Closing) {
        close(self.store, &self.path, closing);
    }
}
