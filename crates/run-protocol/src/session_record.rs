//! The record of a session between its runs: `sessions/<uuid>/session.json`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{BytesPath, Checkpoint, RunId, UserMcpFiles};

/// The place and the state of a session. The shim replaces the whole record when a run takes the session's lease and
/// when the run ends; once a run has ended, the session can be resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The format's version.
    pub v: u32,
    /// The session.
    pub session: Uuid,
    /// Its workspace's physical path.
    pub workspace: String,
    /// The directory in which Cursor kept the session, below `chats`.
    pub config_root: BytesPath,
    /// The run that holds the session, or held it last.
    pub run: RunId,
    /// How many times a run has taken the session's lease.
    pub generation: u64,
    /// When this was written, in milliseconds since the epoch.
    pub at: u64,
    /// The store's state at the end of the last run; `None` before the first run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The changes made by `caretaker mcp enable` and `disable`; every later run of the session keeps them.
    #[serde(default, skip_serializing_if = "McpChoice::is_empty")]
    pub mcp: McpChoice,
}

/// The user's changes to a session's MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpChoice {
    /// Servers that are switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<String>,
    /// Servers from the user's own file that the agent also gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<UserMcpFiles>,
}

impl McpChoice {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl SessionRecord {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}

/// A session that has an id but no prompt yet: `sessions/<uuid>/minted.json`. Cursor does not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MintedSession {
    /// The format's version.
    pub v: u32,
    /// The session.
    pub session: Uuid,
    /// Its workspace's physical path.
    pub workspace: String,
    /// When the id was made, in milliseconds since the epoch.
    pub at: u64,
}

impl MintedSession {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}
