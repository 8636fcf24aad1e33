//! Makes the same decision for a batch without a daemon: no queue, no dependencies, only the batch's own runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use admission::config::caps::Caps;
use run_protocol::RunId;

use super::{Conditions, DiskRoom, Gate, Share, SpentBudgets, WaitingRun, decide};
use crate::run_watch::DEFAULT_ACCOUNT;

/// A batch run, before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRun {
    pub model: Option<String>,
    /// Its physical path; `None` if the run gets its own worktree.
    pub workspace: Option<PathBuf>,
    pub priority: i32,
}

/// The state of a batch run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Waits,
    UnderWay,
    Over,
}

/// The properties that all runs of a batch share.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    pub group: &'a str,
    pub account: Option<&'a str>,
    pub caps: &'a Caps,
}

impl Batch<'_> {
    /// The runs that start now, in this order.
    pub fn starts<'r>(&self, runs: impl IntoIterator<Item = (&'r BatchRun, Turn)>) -> Vec<usize> {
        let (mut waiting, mut live) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<RunId, usize> = BTreeMap::new();
        for (place, (wanted, turn)) in runs.into_iter().enumerate() {
            // Later ids are greater, so runs with the same priority start in the order of their lines.
            let run = RunId::generate();
            let share = self.share(run, wanted);
            match turn {
                Turn::Over => continue,
                Turn::UnderWay => live.push((run, share)),
                Turn::Waits => waiting.push(as_waiting(run, share, wanted.priority)),
            }
            places.insert(run, place);
        }
        let conditions = Conditions {
            gate: Gate::Open,
            disk: DiskRoom::Enough,
            lowered: &BTreeMap::new(),
            budgets: &SpentBudgets::default(),
            dependencies: &BTreeMap::new(),
            // All runs have waited equally long, so with any ageing the higher priority comes first.
            ageing_ms: 1,
        };
        let decision = decide(0, &waiting, &live, self.caps, &conditions);
        decision.starts.iter().filter_map(|run| places.get(run).copied()).collect()
    }

    fn share(&self, run: RunId, wanted: &BatchRun) -> Share {
        // No other run uses a worktree or a session that does not exist yet.
        let own = run.to_string();
        Share {
            group: Some(self.group.to_owned()),
            model: wanted.model.clone(),
            account: self.account.unwrap_or(DEFAULT_ACCOUNT).to_owned(),
            workspace: wanted.workspace.clone().unwrap_or_else(|| PathBuf::from(&own)),
            session: own,
        }
    }
}

fn as_waiting(run: RunId, share: Share, priority: i32) -> WaitingRun {
    let (after, after_ok) = (Vec::new(), Vec::new());
    WaitingRun {
        run,
        share,
        since_ms: 0,
        priority,
        not_before_ms: None,
        after,
        after_ok,
        hold: None,
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
