//! What is said over a run's control socket: one JSON object a line, in both directions.

use serde::{Deserialize, Serialize};

use crate::{Epoch, RunId, UserMcpFiles};

/// What a client asks of a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Tell me whenever there is more in the journal. Answered at once with how far it is now, so that nothing written
    /// between a client's last look and this request goes unnoticed.
    Watch,
    /// Stop the run.
    Stop {
        /// How.
        manner: StopManner,
    },
    /// Stop the run by the ladder, so that its session can be taken up again. Asking twice is asking once.
    Suspend,
    /// Change which MCP servers the session's agent gets, and write its `mcp.json` again. Answered when that is done.
    RegenerateMcp(ServerChange),
}

/// A change of the MCP servers that an agent gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerChange {
    /// Servers to switch on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enable: Vec<String>,
    /// Servers to switch off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable: Vec<String>,
    /// Where the user's own servers are defined, for those that the run does not know yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserMcpFiles>,
}

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopManner {
    /// Up the ladder: INT, TERM, KILL.
    Ladder,
    /// Straight to the end.
    Now,
}

/// What a shim answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ControlReply {
    /// The first line of every connection: who speaks.
    Hello {
        /// The run.
        run: RunId,
        /// The journal format it writes.
        journal: u32,
    },
    /// The journal holds everything up to this event.
    Grown {
        /// Of the writer's epoch.
        epoch: Epoch,
        /// The last number.
        seq: u64,
    },
    /// Done.
    Ok,
    /// Not done.
    Refused {
        /// Why.
        reason: String,
    },
}
