//! Decides which runs to remove. A pure function.

use std::collections::{BTreeMap, BTreeSet};

use run_protocol::RunId;
use serde::Serialize;

/// The rules. A run is removed if any of them applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Criteria {
    /// Applies if the run's last event is older.
    pub(crate) older_than_ms: Option<u64>,
    /// Applies if at least this many runs are newer.
    pub(crate) keep: Option<usize>,
    /// Applies to the oldest run while all runs together take more.
    pub(crate) max_bytes: Option<u64>,
}

/// A run, and the reason to keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) run: RunId,
    pub(crate) session: String,
    /// The time of its last event.
    pub(crate) at_ms: u64,
    pub(crate) bytes: u64,
    pub(crate) need: Option<Need>,
}

/// Why a run stays although a rule would remove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "need", rename_all = "snake_case")]
pub(crate) enum Need {
    /// It has not ended.
    Unfinished,
    Pinned,
    /// Its session was cut off or suspended, and can still be resumed.
    Session,
    /// A queued run is waiting for it.
    Follower {
        follower: RunId,
    },
    /// Its worktree has unapplied changes, or cannot be checked.
    Worktree {
        why: String,
    },
    /// The day's budget counts it.
    Budget,
    /// An earlier run of its session stays, and would look cut off without it.
    Successor {
        of: RunId,
    },
}

impl Need {
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Unfinished => "it has not ended".to_owned(),
            Self::Pinned => "pinned".to_owned(),
            Self::Session => "its session can still be resumed".to_owned(),
            Self::Follower { follower } => format!("run {follower} is waiting for it"),
            Self::Worktree { why } => why.clone(),
            Self::Budget => "today's budget counts it".to_owned(),
            Self::Successor { of } => format!("it continued run {of}, which stays"),
        }
    }
}

/// The decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Oldest first.
    pub(crate) go: Vec<RunId>,
    /// Runs that a rule would remove, and why they stay.
    pub(crate) stay: Vec<(RunId, Need)>,
}

/// Decides for all runs.
pub(crate) fn plan(runs: &[Candidate], criteria: Criteria, now_ms: u64) -> Plan {
    let mut order: Vec<&Candidate> = runs.iter().collect();
    order.sort_by_key(|run| (run.at_ms, run.run));
    let mut wanted: BTreeSet<RunId> = BTreeSet::new();
    if let Some(age) = criteria.older_than_ms {
        let is_old = |run: &&&Candidate| now_ms.saturating_sub(run.at_ms) > age;
        wanted.extend(order.iter().filter(is_old).map(|run| run.run));
    }
    if let Some(keep) = criteria.keep {
        let n_too_many = order.len().saturating_sub(keep);
        wanted.extend(order[..n_too_many].iter().map(|run| run.run));
    }
    let mut going = settle(&order, &wanted);
    if let Some(most) = criteria.max_bytes {
        let mut total: u64 =
            order.iter().filter(|run| !going.contains(&run.run)).map(|run| run.bytes).sum();
        for run in &order {
            if total <= most {
                break;
            }
            if !going.contains(&run.run) && wanted.insert(run.run) {
                let more = settle(&order, &wanted);
                let freed =
                    order.iter().filter(|it| more.contains(&it.run) && !going.contains(&it.run));
                total = total.saturating_sub(freed.map(|it| it.bytes).sum());
                going = more;
            }
        }
    }
    let stay = order.iter().filter(|run| wanted.contains(&run.run) && !going.contains(&run.run));
    let stay = stay.filter_map(|run| {
        let need = run
            .need
            .clone()
            .or_else(|| predecessor(&order, run, &going).map(|of| Need::Successor { of }))?;
        Some((run.run, need))
    });
    Plan {
        stay: stay.collect(),
        go: order.iter().map(|run| run.run).filter(|run| going.contains(run)).collect(),
    }
}

/// The runs in `wanted` that can be removed: nothing needs them, and no earlier run of their session stays.
fn settle(order: &[&Candidate], wanted: &BTreeSet<RunId>) -> BTreeSet<RunId> {
    let mut by_session: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    for run in order {
        by_session.entry(&run.session).or_default().push(run);
    }
    let mut going = BTreeSet::new();
    for runs in by_session.values_mut() {
        runs.sort_by_key(|run| run.run);
        let can_go = |run: &&&Candidate| run.need.is_none() && wanted.contains(&run.run);
        going.extend(runs.iter().take_while(can_go).map(|run| run.run));
    }
    going
}

/// Returns the first run that stays and that came before `run` in the same session.
fn predecessor(order: &[&Candidate], run: &Candidate, going: &BTreeSet<RunId>) -> Option<RunId> {
    order
        .iter()
        .filter(|it| it.session == run.session && it.run < run.run && !going.contains(&it.run))
        .map(|it| it.run)
        .min()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
