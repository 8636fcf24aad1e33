//! The tool calls, time and tokens that a run used.

use serde::{Deserialize, Serialize};

/// The tool calls, time and tokens that a run used. `None` means unknown, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spend {
    /// The number of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// The time from the start of the sandbox to the end of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// All tokens, including those read from and written to a cache. The agent reports them at the end of its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Spend {
    /// The spend of a run whose agent never started.
    pub const NOTHING: Self = Self { tool_calls: Some(0), time_ms: Some(0), tokens: Some(0) };
}
