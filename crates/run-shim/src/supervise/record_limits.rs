//! The limits of a run's journal and disk.

use run_protocol::{LimitKind, RunSpec};

use crate::limits::DiskAccount;

/// The limits of the run's record. The shim checks them after each batch.
#[derive(Debug)]
pub(crate) struct RecordLimits {
    account: DiskAccount,
    journal_bytes: u64,
    disk_bytes: u64,
    /// True once the shim has reported a limit. After that the run ends.
    is_told: bool,
}

impl RecordLimits {
    pub(crate) fn new(account: DiskAccount, spec: &RunSpec) -> Self {
        let (journal_bytes, disk_bytes) = (spec.limits.journal_bytes, spec.resources.disk_bytes);
        Self { account, journal_bytes, disk_bytes, is_told: false }
    }

    /// Returns a limit that the record has just reached, once.
    pub(crate) fn newly_met(&mut self) -> Option<LimitKind> {
        if self.is_told {
            return None;
        }
        let met = self.account.met(self.journal_bytes, self.disk_bytes);
        self.is_told = met.is_some();
        met
    }
}
