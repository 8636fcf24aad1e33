//! What a run has taken of what is counted.

use serde::{Deserialize, Serialize};

/// What a run took, as far as it is known. What is not known is `None`, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spend {
    /// Tools that the agent called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// From the start of its sandbox to the end of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// All of them together, those read from and written to a cache too. The agent says it when its turn is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Spend {
    /// Of a run whose agent was never let go.
    pub const NOTHING: Self = Self { tool_calls: Some(0), time_ms: Some(0), tokens: Some(0) };
}
