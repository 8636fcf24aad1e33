//! How long a run may take for what.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CountLimit, HumanDuration, RunRequest, SizeLimit};

/// The limits of a run. Zero means: no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// From the start of the agent to its `init` line.
    pub startup_ms: u64,
    /// Silence while no tool is open. A healthy agent has been silent for 757 s.
    pub idle_ms: u64,
    /// A tool call that declares no limit of its own.
    pub tool_ms: u64,
    /// Silence after a final answer that no `result` follows, while only background shells live.
    pub settle_ms: u64,
    /// The whole run.
    pub wall_ms: u64,
    /// How many tools the agent may call.
    pub tool_calls: u64,
    /// How many tokens it may take. It says how many with its result, so it is not stopped by this: it is what it came to.
    pub tokens: u64,
    /// How long the run's journal may become, in bytes.
    pub journal_bytes: u64,
    /// From `result` to the end of the process.
    pub linger_ms: u64,
    /// From the end of the process to the end of its output.
    pub drain_ms: u64,
    /// How stopping escalates.
    pub ladder: StopLadder,
}

/// INT to the payload, then TERM, then the namespace is killed.
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
    /// Puts what a request asks for in the place of what there was.
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
    }

    /// A limit as a duration; `None` where there is none.
    pub fn duration(milliseconds: u64) -> Option<Duration> {
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_from_before_there_was_a_limit_of_the_journal_gets_the_usual_one() {
        let limits: RunLimits = serde_json::from_str(r#"{"wall_ms":5,"tokens":7}"#).unwrap();
        assert_eq!((limits.wall_ms, limits.tokens, limits.journal_bytes), (5, 7, 4 << 30));
    }
}
