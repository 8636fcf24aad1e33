//! Stores of the command line agent and of ACP sessions, of every generation; `cursor_stores::chat` reads them.
//!
//! [`Chat`] writes a conversation as a build of its [`Generation`] would. [`StoreWriter`] is the level below: blobs, roots
//! and the meta row, for stores that no build writes.

mod bulk;
mod json;
mod planted;
mod store_writer;
mod writing;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

pub use bulk::{MetaFiles, large_chat, many_chats, wide_chat};
pub use cursor_stores::chat::schema::{ConversationStateStructure, TodoStatus as Todo};
pub use planted::{Planted, planted_chat};
pub use store_writer::{MetaForm, StoreWriter};

use crate::Closing;

/// The date of the build that wrote a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Turns in field 2 without a union around them, no request ids, no `<user_query>`, no `meta.json`.
    Aug2025,
    /// Turns in field 8, request ids, token details, the workspace in field 9.
    Feb2026,
    /// With `meta.json`, the models of thoughts, and an encryption key in the meta row.
    Jul2026,
    /// With times on everything, and the provider's ids on messages.
    Sep2026,
}

/// One chat.
#[derive(Debug, Clone)]
pub struct Chat {
    pub generation: Generation,
    pub id: String,
    pub name: String,
    pub workspace: String,
    pub created_ms: i64,
    pub model: String,
    pub turns: Vec<Turn>,
    /// A message that is not committed: thinking, text, and calls without results.
    pub pending: Vec<Step>,
    pub todos: Vec<(String, Todo)>,
    pub plan: Option<String>,
    /// Path, content before, content now.
    pub files: Vec<(String, String, String)>,
    /// The number of turns after which the prompt was summarised, and the summary.
    pub compaction: Option<(usize, String)>,
    /// `subagentInfo` of a subagent's own store: the parent's id, the call's id, and the type.
    pub subagent_of: Option<(String, String, String)>,
    /// Every root that the build would have written, or only the last.
    pub roots: Roots,
    /// Additional fields of the root, as an encoded `ConversationStateStructure`.
    pub more: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roots {
    All,
    Last,
}

/// A turn, from one prompt to the next.
#[derive(Debug, Clone)]
pub enum Turn {
    Agent {
        prompt: String,
        steps: Vec<Step>,
    },
    /// A command that the user ran with `!`.
    Shell {
        command: String,
        stdout: String,
        stderr: String,
        exit_code: i32,
    },
}

/// One step of an agent.
#[derive(Debug, Clone)]
pub enum Step {
    Thinking(String),
    Text(String),
    Call(Call),
}

/// A tool call.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    /// As the prompt names it: `Shell`, `Read`, `Task`.
    pub tool: String,
    pub args: Json,
    /// `None` while it is running.
    pub result: Option<Outcome>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    Success(Json),
    Error(String),
    Rejected(String),
}

impl Call {
    /// A shell command that printed something.
    #[must_use]
    pub fn shell(id: &str, command: &str, output: &str) -> Self {
        Self {
            id: id.to_owned(),
            tool: "Shell".to_owned(),
            args: serde_json::json!({ "command": command }),
            result: Some(Outcome::Success(output.into())),
        }
    }
}

impl Turn {
    /// A prompt and an answer.
    #[must_use]
    pub fn plain(prompt: &str, answer: &str) -> Self {
        Self::Agent { prompt: prompt.to_owned(), steps: vec![Step::Text(answer.to_owned())] }
    }
}

impl Chat {
    /// A chat without a message.
    #[must_use]
    pub fn new(generation: Generation, id: &str) -> Self {
        Self {
            generation,
            id: id.to_owned(),
            name: "A chat".to_owned(),
            workspace: "/home/u/project".to_owned(),
            created_ms: 1_790_000_000_000,
            model: "claude-4.5-sonnet-thinking".to_owned(),
            turns: Vec::new(),
            pending: Vec::new(),
            todos: Vec::new(),
            plan: None,
            files: Vec::new(),
            compaction: None,
            subagent_of: None,
            roots: Roots::All,
            more: Vec::new(),
        }
    }

    /// Returns the chat with these turns.
    #[must_use]
    pub fn with_turns(mut self, turns: Vec<Turn>) -> Self {
        self.turns = turns;
        self
    }

    /// Writes it below a `chats` directory and returns its own directory.
    pub fn write_cli(&self, chats: &Path, closing: Closing) -> PathBuf {
        self.write_into(&chats.join(bucket_of(&self.workspace)).join(&self.id), closing)
    }

    /// Writes it below an `acp-sessions` directory, with the shorter `meta.json` of ACP sessions.
    pub fn write_acp(&self, sessions: &Path, closing: Closing) -> PathBuf {
        let directory = self.write_into(&sessions.join(&self.id), closing);
        let meta =
            serde_json::json!({ "schemaVersion": 1, "cwd": self.workspace, "title": self.name });
        std::fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
        directory
    }

    /// Returns when its last turn ended, as `meta.json` has it.
    #[must_use]
    pub fn updated_ms(&self) -> i64 {
        self.created_ms + 3_600_000
    }
}

/// Returns the directory of a workspace's chats: the MD5 of its path.
#[must_use]
pub fn bucket_of(workspace: &str) -> String {
    use md5::{Digest, Md5};
    hex::encode(Md5::digest(workspace.as_bytes()))
}
