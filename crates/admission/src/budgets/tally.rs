//! Counts the runs of a group by state.

use run_journal::{RunOverview, RunState};
use run_protocol::RunOutcome;
use serde::{Deserialize, Serialize};

/// The runs of a group, including removed runs, counted by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Tally {
    /// Runs that wait in the queue.
    pub queued: u64,
    /// Runs that are under way.
    pub running: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that ended with another outcome.
    pub failed: u64,
    /// Runs that an older version removed without keeping their outcome.
    #[serde(default)]
    pub unknown: u64,
}

impl Tally {
    /// Counts these runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a RunOverview>) -> Self {
        let mut tally = Self::default();
        runs.into_iter().for_each(|run| tally.add(&run.state));
        tally
    }

    /// Counts one more run.
    pub fn add(&mut self, state: &RunState) {
        *match (state, state.outcome()) {
            (RunState::Queued { .. }, _) => &mut self.queued,
            (_, None) => &mut self.running,
            (_, Some(RunOutcome::Succeeded)) => &mut self.succeeded,
            (_, Some(_)) => &mut self.failed,
        } += 1;
    }

    /// The total number of runs.
    pub fn total(&self) -> u64 {
        self.queued + self.running + self.succeeded + self.failed + self.unknown
    }
}
