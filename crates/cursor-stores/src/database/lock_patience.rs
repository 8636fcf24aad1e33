//! Limits how long readers wait for locked databases. All databases share one limit, so listing many takes no longer
//! than listing one.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::parallel::lock;

/// Cursor itself waits this long for a lock.
const LIMIT: Duration = Duration::from_secs(5);
/// A well-behaved writer finishes within this time. Readers always wait this long, even when the limit is used up.
const LEAST: Duration = Duration::from_millis(20);
/// After this long without a lock, readers may wait the full time again.
const RECOVERY: Duration = Duration::from_secs(30);

static PATIENCE: Mutex<Patience> = Mutex::new(Patience { waited: Duration::ZERO, last: None });

/// Returns how long a reader may wait for a lock now.
pub(crate) fn allowance() -> Duration {
    lock(&PATIENCE).left(Instant::now())
}

/// Records that a reader waited this long in vain.
pub(crate) fn spend(waited: Duration) {
    lock(&PATIENCE).spend(waited, Instant::now());
}

#[derive(Debug)]
struct Patience {
    waited: Duration,
    /// The last time that a reader waited in vain.
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
    fn all_locks_share_one_patience_and_it_recovers() {
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
