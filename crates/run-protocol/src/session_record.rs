//! What we remember of a session from run to run: `sessions/<uuid>/session.json`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{BytesPath, Checkpoint, RunId, UserMcpFiles};

/// Where a session is and how it stood when a run of ours let go of it. Written when a run takes the session's lease and
/// when it ends, whole or not at all; every end of a run is a point where the session can be taken up again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The format's version.
    pub v: u32,
    /// The session.
    pub session: Uuid,
    /// Its workspace's physical path.
    pub workspace: String,
    /// Where Cursor kept the session: its `chats` are below.
    pub config_root: BytesPath,
    /// The run that has it, or had it last.
    pub run: RunId,
    /// How often a run has taken the session's lease.
    pub generation: u64,
    /// When this was written, in milliseconds since the epoch.
    pub at: u64,
    /// What the store held at the end of the last run that ended; `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What `caretaker mcp enable` and `disable` changed; every later run of the session keeps it.
    #[serde(default, skip_serializing_if = "McpChoice::is_empty")]
    pub mcp: McpChoice,
}

/// How a session's MCP servers differ from those that its runs asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpChoice {
    /// Servers that are switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<String>,
    /// Servers of the user's own file that are given beside those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<UserMcpFiles>,
}

impl McpChoice {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl SessionRecord {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}

/// A session that has an id and no prompt yet: `sessions/<uuid>/minted.json`. Nobody but us knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MintedSession {
    /// The format's version.
    pub v: u32,
    /// The session.
    pub session: Uuid,
    /// Its workspace's physical path.
    pub workspace: String,
    /// When it was minted, in milliseconds since the epoch.
    pub at: u64,
}

impl MintedSession {
    /// The version that this build writes.
    pub const VERSION: u32 = 1;
}
