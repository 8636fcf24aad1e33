//! Whether we ran when we should have: what nobody could see of the agent counts as no silence.

use std::time::Duration;

use tokio::time::Instant;

use crate::supervise::supervisor::LOOK_EVERY;

/// A delay below this is what a busy machine does to everybody.
const NOTICED: Duration = Duration::from_millis(100);

/// Knows when we should have run, and so for how long we did not: stopped, frozen, or without a processor.
pub(crate) struct Presence {
    expected: Instant,
}

impl Presence {
    pub(crate) fn new() -> Self {
        Self { expected: Instant::now() + LOOK_EVERY }
    }

    /// We wait, for the deadline at most, and never for longer than until the next look.
    pub(crate) fn expect_until(&mut self, deadline: Option<Instant>) {
        let now = Instant::now();
        let look = now + LOOK_EVERY;
        self.expected = deadline.map_or(look, |deadline| deadline.clamp(now, look));
    }

    /// For how long we did not run though we should have; what is not worth a word is `None`.
    pub(crate) fn absent_ms(&mut self) -> Option<u64> {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.expected);
        self.expected = now + LOOK_EVERY;
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        (late >= NOTICED).then_some(ms)
    }
}
