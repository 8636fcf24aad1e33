//! The decision itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use admission::budgets::budget::{BudgetScope, Overspent};
use admission::config::caps::{CapKind, Caps};
use run_protocol::RunId;

use super::{Lowered, Waiting};

/// The scarce resources that a run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) group: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) account: String,
    pub(crate) workspace: PathBuf,
    pub(crate) session: String,
}

/// A run that is waiting for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingRun {
    pub(crate) run: RunId,
    pub(crate) share: Share,
    /// When the run began to wait. For a delayed run, when its delay ended.
    pub(crate) since_ms: u64,
    pub(crate) priority: i32,
    pub(crate) not_before_ms: Option<u64>,
    pub(crate) after: Vec<RunId>,
    pub(crate) after_ok: Vec<RunId>,
    /// The reason to hold back this one run.
    pub(crate) hold: Option<Hold>,
}

/// A reason to hold back one run, independent of other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// A start failed; the daemon tries again at `until_ms`.
    Retry { problem: String, until_ms: u64 },
    /// The daemon does not have the run's keys.
    Keys { names: Vec<String> },
    /// The run is new, and the process that created it is about to send its credentials.
    Credentials { until_ms: u64 },
}

/// The state of a run that another run depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependency {
    Unfinished,
    Succeeded,
    /// It ended with another outcome, or was lost.
    Failed,
    /// The run was removed.
    Removed,
}

/// Whether the daemon starts runs at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    Paused,
}

/// Whether the disk has room for more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskRoom {
    Enough,
    Short { free_bytes: u64, needed_bytes: u64 },
}

/// The exhausted budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SpentBudgets {
    pub(crate) day: Option<Overspent>,
    /// When the day ends.
    pub(crate) day_ends_ms: u64,
    /// By group.
    pub(crate) groups: BTreeMap<String, Overspent>,
}

/// Everything else that the decision depends on.
#[derive(Debug, Clone)]
pub(crate) struct Conditions<'a> {
    pub(crate) gate: Gate,
    pub(crate) disk: DiskRoom,
    /// By account.
    pub(crate) lowered: &'a BTreeMap<String, Lowered>,
    pub(crate) budgets: &'a SpentBudgets,
    /// Every run that a waiting run depends on.
    pub(crate) dependencies: &'a BTreeMap<RunId, Dependency>,
    /// How long a run must wait to make up for one point of priority.
    pub(crate) ageing_ms: u64,
}

/// A decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Runs to start, in this order.
    pub(crate) starts: Vec<RunId>,
    /// Runs that can never start, and why.
    pub(crate) ends: Vec<(RunId, String)>,
    /// Why each of the other runs waits, in the order in which they will start.
    pub(crate) waiting: Vec<(RunId, Waiting)>,
    /// When to decide again even if nothing happens.
    pub(crate) next_look_ms: Option<u64>,
}

/// How soon to check a full disk again.
const DISK_LOOK_MS: u64 = 30_000;

/// Decides for every waiting run whether it starts now, or why it waits.
pub(crate) fn decide(
    now_ms: u64,
    waiting: &[WaitingRun],
    live: &[(RunId, Share)],
    caps: &Caps,
    conditions: &Conditions<'_>,
) -> Decision {
    let mut order: Vec<&WaitingRun> = waiting.iter().collect();
    order.sort_by_key(|run| (rank(run, conditions.ageing_ms), run.run));
    let mut round = Round {
        now_ms,
        caps,
        conditions,
        live: live.iter().map(|(run, share)| (*run, share)).collect(),
        n_capped: BTreeMap::new(),
        decision: Decision::default(),
    };
    for run in order {
        match round.consider(run) {
            Verdict::Never(why) => round.decision.ends.push((run.run, why)),
            Verdict::Not(reason) => round.decision.waiting.push((run.run, reason)),
            Verdict::Now => {
                round.live.push((run.run, &run.share));
                round.decision.starts.push(run.run);
            }
        }
    }
    round.decision
}

/// Runs with a smaller rank start sooner. Each point of priority counts as a fixed waiting time. So the order of two
/// runs never changes, and only runs that arrive within that time can overtake a waiting run.
fn rank(run: &WaitingRun, ageing_ms: u64) -> i128 {
    let since = run.since_ms.max(run.not_before_ms.unwrap_or(0));
    i128::from(since) - i128::from(run.priority) * i128::from(ageing_ms)
}

enum Verdict {
    Now,
    Not(Waiting),
    Never(String),
}

struct Round<'a> {
    now_ms: u64,
    caps: &'a Caps,
    conditions: &'a Conditions<'a>,
    /// The live runs, and the runs that this decision starts.
    live: Vec<(RunId, &'a Share)>,
    /// For each cap, the number of runs that this round has found waiting for it.
    n_capped: BTreeMap<(CapKind, String), u32>,
    decision: Decision,
}

impl<'a> Round<'a> {
    fn consider(&mut self, run: &WaitingRun) -> Verdict {
        if let Some(why) = self.never(run) {
            return Verdict::Never(why);
        }
        let reason = self
            .of_its_own(run)
            .or_else(|| self.of_the_queue())
            .or_else(|| self.of_a_budget(run))
            // Cheap to check, and if this cap is reached, the other checks do not matter.
            .or_else(|| self.of_a_cap(CapKind::Total, Some("")))
            .or_else(|| self.of_a_neighbour(run))
            .or_else(|| self.of_its_account(run))
            .or_else(|| self.of_a_cap(CapKind::Group, run.share.group.as_deref()))
            .or_else(|| self.of_a_cap(CapKind::Model, run.share.model.as_deref()))
            .or_else(|| self.of_a_cap(CapKind::Account, Some(&run.share.account)));
        reason.map_or(Verdict::Now, Verdict::Not)
    }

    fn dependency(&self, run: &RunId) -> Dependency {
        self.conditions.dependencies.get(run).copied().unwrap_or(Dependency::Removed)
    }

    fn never(&self, run: &WaitingRun) -> Option<String> {
        let spoilt = |wanted: &RunId| match self.dependency(wanted) {
            Dependency::Failed => Some(format!("run {wanted} had to succeed first, and did not")),
            Dependency::Removed => {
                Some(format!("run {wanted} had to succeed first, and was removed"))
            }
            Dependency::Unfinished | Dependency::Succeeded => None,
        };
        run.after_ok.iter().find_map(spoilt)
    }

    fn of_its_own(&mut self, run: &WaitingRun) -> Option<Waiting> {
        if let Some(until_ms) = run.not_before_ms.filter(|until| *until > self.now_ms) {
            self.look_at(until_ms);
            return Some(Waiting::Time { until_ms, in_ms: until_ms - self.now_ms });
        }
        for (runs, to_succeed) in [(&run.after_ok, true), (&run.after, false)] {
            let unfinished = |run: &&RunId| matches!(self.dependency(run), Dependency::Unfinished);
            let runs: Vec<RunId> = runs.iter().filter(unfinished).copied().collect();
            if !runs.is_empty() {
                return Some(Waiting::Runs { runs, to_succeed });
            }
        }
        match &run.hold {
            Some(Hold::Keys { names }) => Some(Waiting::Keys { names: names.clone() }),
            Some(Hold::Retry { problem, until_ms }) if *until_ms > self.now_ms => {
                self.look_at(*until_ms);
                let in_ms = until_ms - self.now_ms;
                Some(Waiting::Retry { problem: problem.clone(), in_ms })
            }
            Some(Hold::Credentials { until_ms }) if *until_ms > self.now_ms => {
                self.look_at(*until_ms);
                Some(Waiting::Start)
            }
            Some(Hold::Retry { .. } | Hold::Credentials { .. }) | None => None,
        }
    }

    fn of_the_queue(&mut self) -> Option<Waiting> {
        if self.conditions.gate == Gate::Paused {
            return Some(Waiting::Resumption);
        }
        match self.conditions.disk {
            DiskRoom::Enough => None,
            DiskRoom::Short { free_bytes, needed_bytes } => {
                self.look_at(self.now_ms + DISK_LOOK_MS);
                Some(Waiting::DiskBlocked { free_bytes, needed_bytes })
            }
        }
    }

    fn of_a_budget(&mut self, run: &WaitingRun) -> Option<Waiting> {
        let budgets = self.conditions.budgets;
        if let Some(spent) = &budgets.day {
            self.look_at(budgets.day_ends_ms.max(self.now_ms + 1));
            let (scope, name) = (BudgetScope::Day, String::new());
            return Some(Waiting::Budget { scope, name, spent: spent.clone() });
        }
        let name = run.share.group.as_ref()?;
        let spent = budgets.groups.get(name)?.clone();
        Some(Waiting::Budget { scope: BudgetScope::Group, name: name.clone(), spent })
    }

    /// Two live agents never share a workspace or a session.
    fn of_a_neighbour(&self, run: &WaitingRun) -> Option<Waiting> {
        let share = &run.share;
        self.live.iter().find_map(|(other, theirs)| {
            if are_nested(&share.workspace, &theirs.workspace) {
                Some(Waiting::Workspace { run: *other })
            } else if share.session == theirs.session {
                Some(Waiting::Session { run: *other })
            } else {
                None
            }
        })
    }

    fn of_its_account(&mut self, run: &WaitingRun) -> Option<Waiting> {
        let account = &run.share.account;
        let until = self.conditions.lowered.get(account)?.pause_until_ms();
        if until <= self.now_ms {
            return None;
        }
        self.look_at(until);
        Some(Waiting::RateLimit { account: account.clone(), in_ms: until - self.now_ms })
    }

    fn of_a_cap(&mut self, cap: CapKind, name: Option<&str>) -> Option<Waiting> {
        let name = name?;
        let limit = self.limit(cap, name)?;
        let running = match cap {
            CapKind::Total => self.live.len(),
            _ => self.live.iter().filter(|(_, live)| counts(live, cap, name)).count(),
        };
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        if running < limit {
            return None;
        }
        if let Some(lowered) = self.lowered(cap, name) {
            self.look_at(lowered.next_raise_ms(self.now_ms));
        }
        let n_capped = self.n_capped.entry((cap, name.to_owned())).or_default();
        let before = *n_capped;
        *n_capped += 1;
        Some(Waiting::Cap { cap, name: name.to_owned(), running, limit, before })
    }

    fn lowered(&self, kind: CapKind, name: &str) -> Option<&'a Lowered> {
        if kind == CapKind::Account { self.conditions.lowered.get(name) } else { None }
    }

    fn limit(&self, kind: CapKind, name: &str) -> Option<u32> {
        let own = self.caps.of(kind, name);
        match self.lowered(kind, name) {
            Some(lowered) => {
                let full = own.unwrap_or(self.caps.total).min(self.caps.total);
                Some(lowered.cap(full, self.now_ms))
            }
            None => own,
        }
    }

    fn look_at(&mut self, ms: u64) {
        let sooner = self.decision.next_look_ms.map_or(ms, |known| known.min(ms));
        self.decision.next_look_ms = Some(sooner);
    }
}

fn counts(live: &Share, kind: CapKind, name: &str) -> bool {
    match kind {
        CapKind::Total => true,
        CapKind::Group => live.group.as_deref() == Some(name),
        CapKind::Model => live.model.as_deref() == Some(name),
        CapKind::Account => live.account == name,
    }
}

/// True if the paths are the same or one contains the other. Both are physical paths.
fn are_nested(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
