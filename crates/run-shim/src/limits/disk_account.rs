//! The account of a run's growth on disk.
//!
//! ```text
//!   journal, stderr.log, checkpoints   counted by the shim as it writes them          ──┐
//!   workspace, private roots           as the last walk found them (`disk_growth`)    ──┴─► the sum, against `--disk`
//! ```
//!
//! Both sides check the sum: the main loop after each batch of the journal, `disk_growth` after each walk. Neither
//! reads the other's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use run_protocol::LimitKind;

/// The account of one run. All clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskAccount {
    sums: Arc<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    journal: AtomicU64,
    /// The other bytes that the shim wrote for the run.
    other_records: AtomicU64,
    /// The agent's own growth.
    by_the_agent: AtomicU64,
}

impl DiskAccount {
    /// Sets the length of the journal.
    pub(crate) fn journal_is(&self, bytes: u64) {
        self.sums.journal.store(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that the shim wrote elsewhere in Caretaker's state.
    pub(crate) fn add(&self, bytes: u64) {
        self.sums.other_records.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sets the agent's growth so far.
    pub(super) fn agent_added(&self, bytes: u64) {
        self.sums.by_the_agent.store(bytes, Ordering::Relaxed);
    }

    /// The bytes that the shim wrote for the run.
    pub(super) fn by_us(&self) -> u64 {
        let other = self.sums.other_records.load(Ordering::Relaxed);
        self.sums.journal.load(Ordering::Relaxed).saturating_add(other)
    }

    /// Returns the limit that the run reached, if any. Zero means no limit.
    pub(crate) fn met(&self, most_journal: u64, most_disk: u64) -> Option<LimitKind> {
        let is_over = |sum: u64, most: u64| most > 0 && sum > most;
        if is_over(self.sums.journal.load(Ordering::Relaxed), most_journal) {
            return Some(LimitKind::Journal { bytes: most_journal });
        }
        let all = self.by_us().saturating_add(self.sums.by_the_agent.load(Ordering::Relaxed));
        is_over(all, most_disk).then_some(LimitKind::Disk { bytes: most_disk })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_limit_that_the_run_reached_is_named() {
        let account = DiskAccount::default();
        account.journal_is(10);
        account.add(5);
        account.agent_added(20);
        assert_eq!(account.met(0, 0), None);
        assert_eq!(account.met(10, 35), None);
        assert_eq!(account.met(9, 35), Some(LimitKind::Journal { bytes: 9 }));
        assert_eq!(account.met(10, 34), Some(LimitKind::Disk { bytes: 34 }));
        assert_eq!(account.met(0, 34), Some(LimitKind::Disk { bytes: 34 }));
    }

    proptest! {
        #[test]
        fn the_disk_limit_is_reached_exactly_when_the_sum_exceeds_it(
            journal in 0..u64::MAX, other in 0..u64::MAX, agent in 0..u64::MAX, most in 1..u64::MAX,
        ) {
            let account = DiskAccount::default();
            account.journal_is(journal);
            account.add(other);
            account.agent_added(agent);
            let sum = u128::from(journal) + u128::from(other) + u128::from(agent);
            let is_over = sum.min(u128::from(u64::MAX)) > u128::from(most);
            prop_assert_eq!(account.met(0, most).is_some(), is_over);
        }
    }
}
