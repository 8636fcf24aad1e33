//! The IDE's `User/globalStorage/state.vscdb` and `User/workspaceStorage`; `cursor_stores::ide` reads them.

mod large;
mod planted;
mod shapes;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Null;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

pub use large::generate_large;
pub use planted::{Planted, plant};
pub use shapes::{
    agent_message, assistant_bubble, composer, header, inline_composer, lexical, thinking_bubble,
    tool_bubble, user_bubble,
};

use crate::{Closing, close, open_writer};

/// A `User` directory of the IDE whose global database is open for writing.
pub struct IdeHome {
    user_dir: PathBuf,
    global: Connection,
}

/// The columns of the header table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderColumns {
    /// Builds from 3.9 on.
    Usual,
    /// The newest builds: with the type of a subagent.
    Newest,
    /// Some builds: without index columns.
    Few,
}

/// One row of the header table.
#[derive(Debug, Clone, Default)]
pub struct HeaderRow {
    pub composer_id: String,
    pub workspace_id: Option<String>,
    pub created_at: Option<i64>,
    pub last_updated_at: Option<i64>,
    pub is_archived: bool,
    pub is_subagent: bool,
    pub recency: Option<i64>,
    pub subagent_type_name: Option<String>,
    pub value: Json,
}

impl IdeHome {
    /// Opens the global database of a `User` directory, and creates both if they are missing.
    pub fn new(user_dir: &Path) -> Self {
        let global = open_writer(&user_dir.join("globalStorage").join("state.vscdb"));
        create_tables(&global);
        Self { user_dir: user_dir.to_owned(), global }
    }

    /// Returns the path of the global database.
    pub fn path(&self) -> PathBuf {
        self.user_dir.join("globalStorage").join("state.vscdb")
    }

    /// Writes JSON as text, like most builds.
    pub fn put(&self, key: &str, value: &Json) {
        self.put_value(key, value.to_string());
    }

    /// Writes bytes as a blob, like the other builds.
    pub fn put_bytes(&self, key: &str, value: &[u8]) {
        self.put_value(key, value);
    }

    /// Writes a key without a value, as Cursor does to delete it.
    pub fn put_tombstone(&self, key: &str) {
        self.put_value(key, Null);
    }

    fn put_value(&self, key: &str, value: impl rusqlite::ToSql) {
        self.global
            .execute("INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)", (key, value))
            .unwrap();
    }

    /// Writes an item of the global `ItemTable`.
    pub fn put_item(&self, key: &str, value: &Json) {
        put_item(&self.global, key, value);
    }

    /// Writes a composer with its bubbles, one row each.
    pub fn put_conversation(&self, composer: &Json, bubbles: &[Json]) {
        let id = composer["composerId"].as_str().unwrap();
        self.put(&format!("composerData:{id}"), composer);
        for bubble in bubbles {
            self.put_bubble(id, bubble);
        }
    }

    /// Writes one bubble of a composer.
    pub fn put_bubble(&self, composer_id: &str, bubble: &Json) {
        self.put(
            &format!("bubbleId:{composer_id}:{}", bubble["bubbleId"].as_str().unwrap()),
            bubble,
        );
    }

    /// Writes a blob of an agent under its hash, and returns the hash.
    pub fn put_agent_blob(&self, content: &[u8]) -> [u8; 32] {
        let id: [u8; 32] = Sha256::digest(content).into();
        self.put_bytes(&format!("agentKv:blob:{}", hex::encode(id)), content);
        id
    }

    /// Creates the header table.
    pub fn create_headers(&self, columns: HeaderColumns) {
        let sql = match columns {
            HeaderColumns::Few => {
                "CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, value TEXT);"
            }
            HeaderColumns::Usual => HEADERS_SQL,
            HeaderColumns::Newest => {
                self.global.execute_batch(HEADERS_SQL).unwrap();
                "ALTER TABLE composerHeaders ADD COLUMN subagentTypeName TEXT;"
            }
        };
        self.global.execute_batch(sql).unwrap();
    }

    /// Writes a row of the header table into the columns that exist.
    pub fn put_header(&self, row: &HeaderRow, columns: HeaderColumns) {
        let value = row.value.to_string();
        match columns {
            HeaderColumns::Few => self
                .global
                .execute("INSERT INTO composerHeaders (composerId, value) VALUES (?1, ?2)", (&row.composer_id, value)),
            HeaderColumns::Usual | HeaderColumns::Newest => self.global.execute(
                "INSERT INTO composerHeaders (composerId, workspaceId, createdAt, lastUpdatedAt, isArchived, isSubagent, \
                 recency, checkpointAt, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)",
                (
                    &row.composer_id,
                    &row.workspace_id,
                    row.created_at,
                    row.last_updated_at,
                    row.is_archived,
                    row.is_subagent,
                    row.recency,
                    value,
                ),
            ),
        }
        .unwrap();
        if columns == HeaderColumns::Newest {
            self.global
                .execute(
                    "UPDATE composerHeaders SET subagentTypeName = ?2 WHERE composerId = ?1",
                    (&row.composer_id, &row.subagent_type_name),
                )
                .unwrap();
        }
    }

    /// Creates a workspace: its `workspace.json`, if it has one, and the items of its database.
    pub fn put_workspace(&self, id: &str, workspace_json: Option<&Json>, items: &[(&str, Json)]) {
        let directory = self.user_dir.join("workspaceStorage").join(id);
        let path = directory.join("state.vscdb");
        let database = open_writer(&path);
        create_tables(&database);
        for (key, value) in items {
            put_item(&database, key, value);
        }
        close(database, &path, Closing::Clean);
        if let Some(json) = workspace_json {
            std::fs::write(directory.join("workspace.json"), json.to_string()).unwrap();
        }
    }

    /// Returns the connection, for everything that has no method here.
    pub fn connection(&self) -> &Connection {
        &self.global
    }

    /// Closes the database.
    pub fn close(self, closing: Closing) {
        let path = self.path();
        close(self.global, &path, closing);
    }

    /// Closes the database as Cursor does, and leaves a copy next to it.
    pub fn close_with_backup(self) {
        let path = self.path();
        close(self.global, &path, Closing::Clean);
        std::fs::copy(&path, path.with_extension("vscdb.backup")).unwrap();
    }
}

const HEADERS_SQL: &str = "CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, workspaceId TEXT, createdAt INTEGER, \
     lastUpdatedAt INTEGER, isArchived INTEGER, isSubagent INTEGER, recency INTEGER, checkpointAt INTEGER, value TEXT);
     CREATE INDEX idx_composerHeaders_0 ON composerHeaders (workspaceId, isSubagent, isArchived, recency);
     CREATE INDEX idx_composerHeaders_1 ON composerHeaders (recency, composerId);";

fn create_tables(connection: &Connection) {
    connection
        .execute_batch(
            "PRAGMA user_version = 1;
             CREATE TABLE IF NOT EXISTS ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
             CREATE TABLE IF NOT EXISTS cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);",
        )
        .unwrap();
}

fn put_item(connection: &Connection, key: &str, value: &Json) {
    connection
        .execute("INSERT INTO ItemTable (key, value) VALUES (?1, ?2)", (key, value.to_string()))
        .unwrap();
}
