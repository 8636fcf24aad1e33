//! A rate-limited account: first a pause, then half as many runs at once, then a slow return to the full cap.

use serde::{Deserialize, Serialize};

/// The pause after the first rate limit; it doubles each time.
const FIRST_PAUSE_MS: u64 = 10_000;
const LONGEST_PAUSE_MS: u64 = 5 * 60_000;
/// The time until one more run may start.
const RECOVERY_MS: u64 = 60_000;

/// The state of a rate-limited account. Kept on disk, so that a new daemon does not begin with a flood of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lowered {
    /// How many runs may be live at once, as of `at_ms`.
    cap: u32,
    /// When the cap was last lowered.
    at_ms: u64,
    /// How many times the cap has been lowered since the account last had its full cap.
    times: u32,
    /// No run starts before this time.
    pause_until_ms: u64,
}

impl Lowered {
    /// The state after a run of the account hit the limit. `full` is the cap without a rate limit. `started_ms` is the
    /// start of the run: a run that was already live when the cap was lowered does not lower it again. `jitter`, 0 to
    /// 1000, spreads the pauses.
    pub(crate) fn after_refusal(
        before: Option<Self>,
        full: u32,
        started_ms: u64,
        now_ms: u64,
        jitter: u64,
    ) -> Self {
        if let Some(before) = before
            && started_ms <= before.at_ms
        {
            return before;
        }
        let cap = before.map_or(full, |before| before.cap(full, now_ms));
        let times = before.map_or(0, |before| before.times);
        let pause = (FIRST_PAUSE_MS << times.min(10)).min(LONGEST_PAUSE_MS);
        let pause = pause / 2 + pause * jitter.min(1000) / 1000;
        Self {
            cap: (cap / 2).max(1),
            at_ms: now_ms,
            times: times + 1,
            pause_until_ms: now_ms + pause,
        }
    }

    /// How many runs may be live at once now.
    pub(crate) fn cap(&self, full: u32, now_ms: u64) -> u32 {
        let raised = now_ms.saturating_sub(self.at_ms) / RECOVERY_MS;
        self.cap.saturating_add(u32::try_from(raised).unwrap_or(u32::MAX)).min(full)
    }

    /// True if the account is back at its full cap.
    pub(crate) fn is_over(&self, full: u32, now_ms: u64) -> bool {
        self.pause_until_ms <= now_ms && self.cap(full, now_ms) >= full
    }

    pub(crate) fn pause_until_ms(&self) -> u64 {
        self.pause_until_ms
    }

    /// When one more run may start.
    pub(crate) fn next_raise_ms(&self, now_ms: u64) -> u64 {
        let raised = now_ms.saturating_sub(self.at_ms) / RECOVERY_MS;
        self.at_ms + (raised + 1) * RECOVERY_MS
    }
}

#[cfg(test)]
#[path = "rate_limit_tests.rs"]
mod tests;
