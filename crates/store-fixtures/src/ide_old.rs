//! The `state.vscdb` of a workspace in the shapes of older IDEs; `cursor_stores::ide_old` reads it.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use serde_json::{Value as Json, json};

use crate::writer::{Closing, close, open_writer};

pub const CHATS: &str = "workbench.panel.aichat.view.aichat.chatdata";
pub const COMPOSERS: &str = "composer.composerData";
pub const SESSIONS: &str = "interactive.sessions";
pub const PROMPTS: &str = "aiService.prompts";
pub const GENERATIONS: &str = "aiService.generations";

/// The type of a value in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    Blob,
    Text,
}

/// A directory with a `state.vscdb`: `workspaceStorage/<hash>`, or `globalStorage`.
pub struct StateDirectory {
    path: PathBuf,
}

impl StateDirectory {
    /// Creates `<user dir>/workspaceStorage/<hash>`.
    pub fn workspace(user_dir: &Path, hash: &str) -> Self {
        Self::at(user_dir.join("workspaceStorage").join(hash))
    }

    /// Creates `<user dir>/globalStorage`.
    pub fn global(user_dir: &Path) -> Self {
        Self::at(user_dir.join("globalStorage"))
    }

    fn at(path: PathBuf) -> Self {
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("state.vscdb")
    }

    /// Writes `workspace.json`.
    pub fn folder(&self, uri: &str) {
        fs::write(self.path.join("workspace.json"), json!({"folder": uri}).to_string()).unwrap();
    }

    /// Writes rows into `state.vscdb`, besides the credentials and settings that each database has.
    pub fn rows(&self, rows: &[(&str, Json)], storage: Storage, closing: Closing) {
        let value = |json: &Json| match storage {
            Storage::Blob => Value::Blob(json.to_string().into_bytes()),
            Storage::Text => Value::Text(json.to_string()),
        };
        let rows: Vec<(&str, Value)> = rows.iter().map(|(key, json)| (*key, value(json))).collect();
        self.raw_rows(&rows, closing);
    }

    /// Like [`Self::rows`], but with values of any type.
    pub fn raw_rows(&self, rows: &[(&str, Value)], closing: Closing) {
        let path = self.database();
        let writer = open_writer(&path);
        writer
            .execute_batch(
                "CREATE TABLE IF NOT EXISTS ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
                 CREATE TABLE IF NOT EXISTS cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
                 INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'secret-access-token'),
                   ('secret://github', 'secret-github-token'), ('workbench.colorTheme', 'dark');",
            )
            .unwrap();
        for (key, value) in rows {
            writer.execute("INSERT INTO ItemTable VALUES (?1, ?2)", (key, value)).unwrap();
        }
        close(writer, &path, closing);
    }

    /// Copies `state.vscdb` to `state.vscdb.backup`, as the IDE does when it exits.
    pub fn back_up(&self) -> PathBuf {
        let backup = self.path.join("state.vscdb.backup");
        fs::copy(self.database(), &backup).unwrap();
        backup
    }
}

/// A state of the editor that the chat panel used.
pub fn editor_state(text: &str) -> String {
    let node = json!({"type": "text", "text": text, "version": 1});
    let paragraph = json!({"type": "paragraph", "children": [node], "version": 1});
    json!({"root": {"type": "root", "children": [paragraph], "version": 1}}).to_string()
}

/// Chat tabs with every known shape of bubble. `word` gives the text for each field.
pub fn every_chat(word: &mut dyn FnMut(&str) -> String) -> Json {
    let bubbles = json!([
        {"type": "user", "id": "b1", "delegate": {"a": word("delegate.a")}, "text": "", "initText": editor_state("not this"),
         "selections": [{"uri": {"fsPath": "/srv/app/a.rs"}, "text": word("selections.text")}],
         "image": {"path": word("image.path")}},
        {"type": "ai", "id": "b2", "rawText": word("rawText"), "text": "", "modelType": word("modelType")},
        {"type": "user", "id": "b3", "text": word("user text")},
        {"type": "ai", "id": "b4", "text": word("ai text"), "modelType": "gpt-4"},
        {"type": "user", "id": "b5", "initText": editor_state(&word("initText"))},
        {"type": "user", "id": "b6", "rawText": word("user rawText")},
        {"type": "of_tomorrow", "id": "b7", "text": word("unknown bubble")},
    ]);
    json!({
        "tabs": [{
            "tabId": "tab-1", "chatTitle": word("chatTitle"), "lastSendTime": 1_700_000_000_000_i64,
            "bubbles": bubbles,
        }],
        "selectedTabId": "tab-1",
    })
}

/// Composers of the oldest kind, with their bubbles, and one head without any.
pub fn every_composer(word: &mut dyn FnMut(&str) -> String) -> Json {
    let tool = json!({
        "name": "run_terminal_cmd", "params": json!({"command": word("tool params")}).to_string(),
        "result": json!({"output": word("tool result")}).to_string(), "status": "completed", "toolCallId": "call_1",
    });
    let conversation = json!([
        {"bubbleId": "c1", "type": 1, "text": word("composer user text"), "richText": "",
         "context": {"fileSelections": [{"uri": {"fsPath": word("attached file")}}]}},
        {"bubbleId": "c2", "type": 2, "text": word("composer ai text"), "thinking": {"text": word("composer thinking")},
         "codeBlocks": [{"content": word("code block"), "languageId": "rust", "uri": {"fsPath": "/srv/app/b.rs"}}]},
        {"bubbleId": "c3", "type": 2, "text": ""},
    ]);
    json!({
        "allComposers": [
            {"type": "head", "composerId": "composer-1", "name": word("composer name"), "createdAt": 1_700_000_000_000_i64,
             "lastUpdatedAt": 1_700_000_100_000_i64, "unifiedMode": "agent", "conversation": conversation,
             "capabilities": [{"type": 15, "data": {"bubbleDataMap": json!({"c3": tool}).to_string()}}]},
            {"type": "head", "composerId": "composer-2", "name": "modern", "createdAt": 1_700_000_000_000_i64},
        ],
        "selectedComposerId": "composer-1",
    })
}

/// A chat of VS Code's own panel.
pub fn every_session(word: &mut dyn FnMut(&str) -> String) -> Json {
    json!([{
        "version": 3, "sessionId": "session-1", "creationDate": 1_700_000_000_000_i64,
        "lastMessageDate": 1_700_000_200_000_i64, "customTitle": word("customTitle"),
        "requests": [{
            "requestId": "request-1", "timestamp": 1_700_000_000_000_i64, "modelId": "copilot/gpt-4o",
            "message": {"text": word("request text"), "parts": []},
            "variableData": {"variables": [{"name": "file:a.rs", "kind": "file", "value": word("variable")}]},
            "response": [
                {"value": word("response value")},
                {"kind": "markdownContent", "content": {"value": word("markdown content")}},
                {"kind": "thinking", "value": word("response thinking")},
                {"kind": "toolInvocationSerialized", "toolId": "copilot_readFile", "toolCallId": "call_2",
                 "isComplete": true, "invocationMessage": word("invocation message")},
                {"kind": "of_tomorrow", "body": word("unknown response")},
            ],
            "result": {"errorDetails": {"message": word("error details")}},
        }],
    }])
}

/// Prompts and generations. One generation has the text of a prompt.
pub fn every_prompt(word: &mut dyn FnMut(&str) -> String) -> (Json, Json) {
    let paired = word("paired prompt");
    let prompts = json!([
        {"text": paired, "commandType": 4},
        {"text": word("lonely prompt"), "commandType": 1},
    ]);
    let generations = json!([
        {"unixMs": 1_700_000_000_000_i64, "generationUUID": "g1", "type": "composer", "textDescription": paired},
        {"unixMs": 1_700_000_500_000_i64, "generationUUID": "g2", "type": "cmdk", "textDescription": word("lonely generation")},
    ]);
    (prompts, generations)
}

/// All rows of a workspace, every shape once.
pub fn every_row(word: &mut dyn FnMut(&str) -> String) -> Vec<(&'static str, Json)> {
    let (prompts, generations) = every_prompt(word);
    vec![
        (CHATS, every_chat(word)),
        (COMPOSERS, every_composer(word)),
        (SESSIONS, every_session(word)),
        (PROMPTS, prompts),
        (GENERATIONS, generations),
    ]
}
