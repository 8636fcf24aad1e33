//! Notices when the shim itself did not run. Such time does not count as the agent's silence.

use std::time::Duration;

use tokio::time::Instant;

use crate::supervise::supervisor::look_after;

/// Shorter delays are normal on a busy machine.
const NOTICED: Duration = Duration::from_millis(100);

/// Knows when the shim should run next, and so how long it was stopped, frozen, or without a processor.
pub(crate) struct Presence {
    expected: Instant,
}

impl Presence {
    pub(crate) fn new() -> Self {
        Self { expected: Instant::now() + look_after(None) }
    }

    /// Records that the shim now waits until the deadline, or until the next check if that is earlier.
    pub(crate) fn expect_until(&mut self, deadline: Option<Instant>) {
        let now = Instant::now();
        let look = now + look_after(deadline);
        self.expected = deadline.map_or(look, |deadline| deadline.clamp(now, look));
    }

    /// Returns how long the shim did not run. `None` for a normal delay.
    pub(crate) fn absent_ms(&mut self) -> Option<u64> {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.expected);
        self.expected = now + look_after(None);
        let ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        (late >= NOTICED).then_some(ms)
    }
}
