//! What the turn loop tells the store, and what the store tells back.

use cursor_stores::chat::schema::AgentMode;
use serde_json::Value;

use crate::tools::Generation;

/// What is known of a session before its first turn. One that is found on disk keeps its own beginning.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The slug given with `--model`, such as `gpt-5.2`; not the display name.
    pub model: String,
    pub mode: SessionMode,
    pub started_ms: u64,
    /// An IANA name such as `Europe/Paris`.
    pub time_zone: String,
    pub generation: Generation,
    /// Whether `--force` was given.
    pub run_everything: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMode {
    Agent,
    Ask,
    Plan,
}

impl SessionMode {
    /// The word of the meta row.
    pub(super) fn in_meta(self) -> &'static str {
        match self {
            Self::Agent => "default",
            Self::Ask => "search",
            Self::Plan => "plan",
        }
    }

    /// The number of roots and user messages.
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
    /// The name the model knows the tool by, such as `Shell`.
    pub tool_name: String,
    /// The arguments as the stream prints them.
    pub args: Value,
    /// The arguments as the model wrote them.
    pub model_args: Value,
}

/// What came of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultRecord {
    pub call_id: String,
    /// The whole `result` object as the stream prints it.
    pub result: Value,
    /// What the model reads.
    pub for_model: String,
    pub is_error: bool,
}

/// A tool call that was under way when an earlier process died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub call_id: String,
    pub tool_name: String,
    /// Builds of early 2026 did not write it down.
    pub started_ms: Option<u64>,
}

/// A message of the conversation so far, reduced to what a script may want to quote.
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

/// How the process lets go of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The write-ahead log is folded in and removed, and a session in which nothing was said is deleted.
    Clean,
    /// The process exits without closing, as builds of early 2026 did: `-wal` and `-shm` stay, as does an empty session.
    LeaveWal,
}
