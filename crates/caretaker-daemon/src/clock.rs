//! What time it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// From now to then.
pub(crate) fn until(then_ms: u64) -> Duration {
    Duration::from_millis(then_ms.saturating_sub(now_ms()))
}
