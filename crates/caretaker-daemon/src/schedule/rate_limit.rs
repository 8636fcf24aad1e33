//! An account that was told to slow down: half as many runs at once, a pause, and slowly back.

use serde::{Deserialize, Serialize};

/// How long nothing is started after the first time; twice as long each further time.
const FIRST_PAUSE_MS: u64 = 10_000;
const LONGEST_PAUSE_MS: u64 = 5 * 60_000;
/// How long it takes until one more run is let in.
const RECOVERY_MS: u64 = 60_000;

/// The state of an account that was rate limited. Kept on disk: a new daemon must not begin with a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lowered {
    /// How many may run at once, as of `at_ms`.
    cap: u32,
    /// When it was last lowered.
    at_ms: u64,
    /// How often, since it was last at its full cap.
    times: u32,
    /// Nothing is started before this.
    pause_until_ms: u64,
}

impl Lowered {
    /// After a run of the account was refused. `full` is the cap without any of this; `started_ms` is when the run began:
    /// those that were under way when the cap was lowered tell nothing new. `jitter` spreads what comes back, 0 to 1000.
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

    /// How many may run at once now.
    pub(crate) fn cap(&self, full: u32, now_ms: u64) -> u32 {
        let raised = now_ms.saturating_sub(self.at_ms) / RECOVERY_MS;
        self.cap.saturating_add(u32::try_from(raised).unwrap_or(u32::MAX)).min(full)
    }

    /// Whether it is as if nothing had been.
    pub(crate) fn is_over(&self, full: u32, now_ms: u64) -> bool {
        self.pause_until_ms <= now_ms && self.cap(full, now_ms) >= full
    }

    pub(crate) fn pause_until_ms(&self) -> u64 {
        self.pause_until_ms
    }

    /// When one more is let in.
    pub(crate) fn next_raise_ms(&self, now_ms: u64) -> u64 {
        let raised = now_ms.saturating_sub(self.at_ms) / RECOVERY_MS;
        self.at_ms + (raised + 1) * RECOVERY_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_halves_and_time_brings_back_one_by_one() {
        let once = Lowered::after_refusal(None, 8, 500, 1_000, 500);
        assert_eq!((once.cap(8, 1_000), once.pause_until_ms()), (4, 11_000));
        assert_eq!(once.cap(8, 61_000), 5);
        assert_eq!(once.next_raise_ms(61_000), 121_000);
        assert!(!once.is_over(8, 200_000));
        assert!(once.is_over(8, 241_000));
        let twice = Lowered::after_refusal(Some(once), 8, 20_000, 61_000, 500);
        assert_eq!((twice.cap(8, 61_000), twice.pause_until_ms()), (2, 81_000));
    }

    #[test]
    fn runs_of_the_same_wave_lower_once_and_one_is_always_left() {
        let once = Lowered::after_refusal(None, 8, 500, 1_000, 0);
        assert_eq!(Lowered::after_refusal(Some(once), 8, 900, 1_005, 0), once);
        let mut lowered = once;
        for round in 1..20 {
            let now = 1_000 + round * 10;
            lowered = Lowered::after_refusal(Some(lowered), 8, now - 1, now, 1000);
        }
        assert_eq!(lowered.cap(8, 1_200), 1);
        assert!(lowered.pause_until_ms() <= 1_200 + LONGEST_PAUSE_MS * 3 / 2);
    }

    #[test]
    fn a_smaller_cap_of_the_user_holds() {
        let once = Lowered::after_refusal(None, 8, 500, 1_000, 0);
        assert_eq!(once.cap(2, 1_000), 2);
    }
}
