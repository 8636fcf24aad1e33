//! Limits how often something may happen: a rate, and a burst.

use std::time::{Duration, Instant};

/// Counts in time instead of tokens. Each unit moves a point in time forward by one interval. There is room while that
/// point is no further ahead of now than a burst.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    interval: Duration,
    burst: Duration,
    paid_until: Option<Instant>,
}

impl Pace {
    /// Allows one unit per interval, and `burst` units at once (at least one) after a pause.
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: interval * burst.saturating_sub(1), paid_until: None }
    }

    /// Tells whether there is room for one unit.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.wait_until(now).is_none()
    }

    /// Takes units, even if there is no room.
    pub(super) fn charge(&mut self, now: Instant, n_units: u32) {
        let from = self.paid_until.map_or(now, |paid_until| paid_until.max(now));
        self.paid_until = Some(from + self.interval * n_units);
    }

    /// Returns the time when there is room for one unit, if that is not now.
    pub(super) fn wait_until(&self, now: Instant) -> Option<Instant> {
        let room_at = self.paid_until?.checked_sub(self.burst)?;
        (room_at > now).then_some(room_at)
    }

    /// Waits until there is room for one unit. Cancel safe.
    pub(super) async fn wait(&self) {
        // A timer rounds up to a millisecond, so set one only if it is needed.
        if let Some(room_at) = self.wait_until(Instant::now()) {
            tokio::time::sleep_until(room_at.into()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_allowed_and_then_one_unit_per_interval() {
        let start = Instant::now();
        let mut pace = Pace::new(SECOND, 3);
        for _ in 0..3 {
            assert!(pace.has_room(start));
            pace.charge(start, 1);
        }
        assert!(!pace.has_room(start));
        assert!(!pace.has_room(start + SECOND / 2));
        assert!(pace.has_room(start + SECOND));
        pace.charge(start + SECOND, 1);
        assert_eq!(pace.wait_until(start + SECOND), Some(start + 2 * SECOND));
        // After a long pause, the whole burst is available again, but no more.
        let later = start + 100 * SECOND;
        for _ in 0..3 {
            assert!(pace.has_room(later));
            pace.charge(later, 1);
        }
        assert!(!pace.has_room(later));
    }

    #[test]
    fn a_charge_larger_than_the_burst_delays_the_next_unit() {
        let start = Instant::now();
        let mut pace = Pace::new(SECOND, 1);
        pace.charge(start, 10);
        assert_eq!(pace.wait_until(start), Some(start + 10 * SECOND));
    }

    proptest! {
        #[test]
        fn no_period_has_more_units_than_the_burst_plus_one_per_interval(
            steps in prop::collection::vec(0..3_000_u64, 1..200), burst in 1..20_u32,
        ) {
            let start = Instant::now();
            let mut pace = Pace::new(SECOND, burst);
            let (mut now, mut taken) = (start, Vec::new());
            for step in steps {
                now += Duration::from_millis(step);
                if pace.has_room(now) {
                    pace.charge(now, 1);
                    taken.push(now);
                }
            }
            for (index, from) in taken.iter().enumerate() {
                for (n_before, to) in taken[index..].iter().enumerate() {
                    let most = u64::from(burst) + to.duration_since(*from).as_secs();
                    prop_assert!((n_before as u64) < most);
                }
            }
        }
    }
}
