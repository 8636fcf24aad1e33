//! Time until a deadline.

use std::time::Duration;

use ground::now_ms;

/// The time from now to `then_ms`; zero if that has passed.
pub(crate) fn until(then_ms: u64) -> Duration {
    Duration::from_millis(then_ms.saturating_sub(now_ms()))
}
