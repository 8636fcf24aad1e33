//! What time it is.

use std::time::Duration;

use ground::now_ms;

/// From now to then.
pub(crate) fn until(then_ms: u64) -> Duration {
    Duration::from_millis(then_ms.saturating_sub(now_ms()))
}
