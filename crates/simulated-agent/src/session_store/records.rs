//! The values that the turn and the store exchange.

use cursor_stores::chat::schema::AgentMode;
use serde_json::Value;

use crate::tools::Generation;

/// The facts about a session before its first turn. An old session keeps its own start time and time zone.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The slug of `--model`, such as `gpt-5.2`; not the display name.
    pub model: String,
    pub mode: SessionMode,
    pub started_ms: u64,
    /// An IANA name such as `Europe/Paris`.
    pub time_zone: String,
    pub generation: Generation,
    /// True with `--force`.
    pub run_everything: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMode {
    Agent,
    Ask,
    Plan,
}

impl SessionMode {
    /// Returns the word for the meta row.
    pub(super) fn in_meta(self) -> &'static str {
        match self {
            Self::Agent => "default",
            Self::Ask => "search",
            Self::Plan => "plan",
        }
    }

    /// Returns the number for roots and user messages.
    pub(super) fn in_root(self) -> AgentMode {
        match self {
            Self::Agent => AgentMode::Agent,
            Self::Ask => AgentMode::Ask,
            Self::Plan => AgentMode::Plan,
        }
    }
}

/// A tool call as the model made it, before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    pub call_id: String,
    /// The key in the stream, such as `shellToolCall`.
    pub key: String,
    /// The model's name for the tool, such as `Shell`.
    pub tool_name: String,
    /// The arguments in the stream.
    pub args: Value,
    /// The model's arguments.
    pub model_args: Value,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultRecord {
    pub call_id: String,
    /// The whole `result` object of the stream.
    pub result: Value,
    /// The text that the model reads.
    pub for_model: String,
    pub is_error: bool,
}

/// A tool call that was running when an earlier process died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub call_id: String,
    pub tool_name: String,
    /// Builds from early 2026 did not write it.
    pub started_ms: Option<u64>,
}

/// A message of the conversation so far, reduced to role and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedMessage {
    pub role: Role,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    Tool,
}

/// How the process closes the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Checkpoints the write-ahead log and removes it, and deletes a session without a conversation.
    Clean,
    /// Exits without closing, as builds from early 2026 did: `-wal` and `-shm` stay, and so does an empty session.
    LeaveWal,
}
