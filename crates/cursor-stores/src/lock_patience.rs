//! How long is waited for databases that others have locked: all of them share one patience, so that a list of many takes
//! no longer than a list of one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// As long as Cursor itself waits for a lock.
const LIMIT: Duration = Duration::from_secs(5);
/// Somebody who writes as they should is done before; even when patience is at its end.
const LEAST: Duration = Duration::from_millis(20);
/// After so long without a lock in the way, patience is as it was.
const RECOVERY: Duration = Duration::from_secs(30);

static PATIENCE: Mutex<Patience> = Mutex::new(Patience { waited: Duration::ZERO, last: None });

/// Returns how long a lock may be waited for now.
pub(crate) fn allowance() -> Duration {
    PATIENCE.lock().unwrap_or_else(PoisonError::into_inner).left(Instant::now())
}

/// Remembers that somebody waited so long, and in vain.
pub(crate) fn spend(waited: Duration) {
    PATIENCE.lock().unwrap_or_else(PoisonError::into_inner).spend(waited, Instant::now());
}

#[derive(Debug)]
struct Patience {
    waited: Duration,
    /// When was last waited in vain.
    last: Option<Instant>,
}

impl Patience {
    fn left(&self, now: Instant) -> Duration {
        let is_recovered =
            self.last.is_none_or(|last| now.saturating_duration_since(last) >= RECOVERY);
        let waited = if is_recovered { Duration::ZERO } else { self.waited };
        LIMIT.saturating_sub(waited).max(LEAST)
    }

    fn spend(&mut self, waited: Duration, now: Instant) {
        let before = LIMIT.saturating_sub(self.left(now));
        self.waited = before.saturating_add(waited);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_share_one_patience_which_comes_back() {
        let mut patience = Patience { waited: Duration::ZERO, last: None };
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(patience.left(now), LIMIT);
        patience.spend(2 * second, now);
        assert_eq!(patience.left(now), 3 * second);
        patience.spend(3 * second, now);
        patience.spend(LEAST, now + second);
        assert_eq!(patience.left(now + second), LEAST);
        assert_eq!(patience.left(now + RECOVERY), LEAST);
        assert_eq!(patience.left(now + second + RECOVERY), LIMIT);
        patience.spend(second, now + second + RECOVERY);
        assert_eq!(patience.left(now + second + RECOVERY), 4 * second);
    }
}
