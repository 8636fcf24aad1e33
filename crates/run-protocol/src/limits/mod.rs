//! A run's limits on time, tool calls, tokens and its journal.

mod resources;
mod spend;
mod widening;
mod words;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CountLimit, HumanDuration, RunRequest, SizeLimit};

pub use resources::{LimitBackend, LimitsInForce, ResourceLimits};
pub use spend::Spend;
pub use widening::{Bound, Widening};

/// The limits of a run. Zero means no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// From the start of the agent to its `init` line.
    pub startup_ms: u64,
    /// Silence while no tool call is under way. A healthy agent was once silent for 757 s.
    pub idle_ms: u64,
    /// A tool call that has no time limit of its own.
    pub tool_ms: u64,
    /// Silence after a final answer without a `result`, while only background shells are alive.
    pub settle_ms: u64,
    /// The whole run.
    pub wall_ms: u64,
    /// The limit on tool calls.
    pub tool_calls: u64,
    /// The limit on tokens. The agent reports them with its result, so this limit cannot stop the agent; it only
    /// decides the outcome.
    pub tokens: u64,
    /// The limit on the journal's size.
    pub journal_bytes: u64,
    /// What happens if the agent repeats the same tool calls.
    #[serde(skip_serializing_if = "OnLoop::is_default")]
    pub r#loop: OnLoop,
    /// From `result` to the end of the process.
    pub linger_ms: u64,
    /// From the end of the process to the end of its output.
    pub drain_ms: u64,
    /// The delays between the signals that stop an agent.
    pub ladder: StopLadder,
}

/// What the shim does if the agent repeats the same tool calls without a new result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLoop {
    /// Record it.
    #[default]
    Warn,
    /// Record it and end the run.
    End,
}

impl OnLoop {
    pub(crate) const WORDS: [(&str, Self); 2] = [("warn", Self::Warn), ("end", Self::End)];

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The shim sends INT, then TERM, and then kills the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StopLadder {
    /// From INT to TERM.
    pub term_after_ms: u64,
    /// From TERM to SIGKILL of the namespace.
    pub kill_after_ms: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            startup_ms: 60_000,
            idle_ms: 20 * 60_000,
            tool_ms: 2 * 60 * 60_000,
            settle_ms: 120_000,
            wall_ms: 0,
            tool_calls: 0,
            tokens: 0,
            journal_bytes: 4 << 30,
            r#loop: OnLoop::default(),
            linger_ms: 5_000,
            drain_ms: 500,
            ladder: StopLadder::default(),
        }
    }
}

impl Default for StopLadder {
    fn default() -> Self {
        Self { term_after_ms: 2_000, kill_after_ms: 3_000 }
    }
}

impl RunLimits {
    /// Replaces the limits that the request names.
    pub fn set(&mut self, request: &RunRequest) {
        let asked = [
            (&mut self.wall_ms, request.timeout.map(HumanDuration::milliseconds)),
            (&mut self.idle_ms, request.idle_timeout.map(HumanDuration::milliseconds)),
            (&mut self.tool_calls, request.max_tool_calls.map(|CountLimit(most)| most)),
            (&mut self.tokens, request.max_tokens.map(|CountLimit(most)| most)),
            (&mut self.journal_bytes, request.journal.map(|SizeLimit(most)| most)),
        ];
        for (limit, asked) in asked {
            *limit = asked.unwrap_or(*limit);
        }
        self.r#loop = request.r#loop.unwrap_or(self.r#loop);
    }

    /// A limit as a duration; `None` if there is no limit.
    pub fn duration(milliseconds: u64) -> Option<Duration> {
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_spec_without_a_limit_on_the_journal_gets_the_default() {
        let limits: RunLimits = serde_json::from_str(r#"{"wall_ms":5,"tokens":7}"#).unwrap();
        assert_eq!((limits.wall_ms, limits.tokens, limits.journal_bytes), (5, 7, 4 << 30));
    }
}
