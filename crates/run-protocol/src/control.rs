//! The messages on a run's control socket: one JSON object per line, in both directions.

use serde::{Deserialize, Serialize};

use crate::{Epoch, RunId, UserMcpFiles};

/// A client's request to a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Tell me when the journal grows. The shim answers immediately with the last event, so that the client misses no
    /// event between its last read and this request.
    Watch,
    /// Stop the run.
    Stop { manner: StopManner },
    /// Stop the run with the stop ladder, so that its session can be resumed. A second request changes nothing.
    Suspend,
    /// Change which MCP servers the session's agent gets, and write its `mcp.json` again. The shim answers when it has
    /// done so.
    RegenerateMcp(ServerChange),
}

/// A change to the MCP servers that an agent gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerChange {
    /// Servers to switch on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enable: Vec<String>,
    /// Servers to switch off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable: Vec<String>,
    /// The files that define the user's own servers, for servers that the run does not know yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserMcpFiles>,
}

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopManner {
    /// With the stop ladder: INT, TERM, KILL.
    Ladder,
    /// KILL immediately.
    Now,
}

/// A shim's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ControlReply {
    /// The first line of every connection.
    Hello {
        run: RunId,
        /// The version of the journal format that the shim writes.
        journal: u32,
    },
    /// The journal holds everything up to this event.
    Grown {
        epoch: Epoch,
        seq: u64,
    },
    Ok,
    Refused {
        reason: String,
    },
}
