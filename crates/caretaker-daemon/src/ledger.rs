//! What runs that are over have taken, for the budgets. Found out from the journals at the start, and kept up from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use run_journal::RunOverview;
use run_protocol::{RunId, Spend};

use crate::budget::{Budget, Spending, judge};
use crate::clock::now_ms;
use crate::daemon::Daemon;
use crate::group_record::GroupRecord;
use crate::run_watch::Standing;
use crate::schedule::{SpentBudgets, WaitingRun};

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<RunId, Entry>>);

#[derive(Debug)]
struct Entry {
    group: Option<String>,
    /// When it was last heard of: the day that it counts for.
    at_ms: u64,
    spend: Spend,
}

impl Ledger {
    pub(crate) fn new(over: &[RunOverview]) -> Self {
        let ledger = Self::default();
        over.iter().for_each(|overview| ledger.add(overview));
        ledger
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<RunId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a run that is over; once, however often it is told.
    pub(crate) fn add(&self, overview: &RunOverview) {
        let Some(spend) = overview.spent else { return };
        let entry = Entry { group: overview.group.clone(), at_ms: overview.last_event_ms, spend };
        self.entries().insert(overview.run, entry);
    }

    fn spending(&self, counts: impl Fn(&Entry) -> bool) -> Spending {
        let mut spending = Spending::default();
        let entries = self.entries();
        entries.values().filter(|entry| counts(entry)).for_each(|entry| spending.add(entry.spend));
        spending
    }
}

impl Daemon {
    /// The budgets that hold back somebody who waits.
    pub(crate) fn budgets(&self, waiting: &[WaitingRun]) -> SpentBudgets {
        let mut spent = SpentBudgets::default();
        if waiting.is_empty() {
            return spent;
        }
        let now = now_ms();
        let day_budget = &self.config.day_budget;
        if day_budget.is_set() {
            let (began_ms, ends_ms) = self.host.day(now);
            let mut spending = self.ledger.spending(|entry| entry.at_ms >= began_ms);
            self.add_live(&mut spending, began_ms, now, None);
            spent.day = judge(day_budget, &spending);
            spent.day_ends_ms = ends_ms;
        }
        let groups: BTreeSet<&String> =
            waiting.iter().filter_map(|run| run.share.group.as_ref()).collect();
        for group in groups {
            let budget = self.group_budget(group);
            if !budget.is_set() {
                continue;
            }
            let mut spending = self.group_spending(group);
            self.add_live(&mut spending, 0, now, Some(group));
            if let Some(overspent) = judge(&budget, &spending) {
                spent.groups.insert(group.clone(), overspent);
            }
        }
        spent
    }

    /// Its own, or that of every group.
    pub(crate) fn group_budget(&self, group: &str) -> Budget {
        GroupRecord::read(self.state(), group).budget.unwrap_or(self.config.group_budget)
    }

    fn group_spending(&self, group: &str) -> Spending {
        self.ledger.spending(|entry| entry.group.as_deref() == Some(group))
    }

    fn add_live(&self, spending: &mut Spending, from_ms: u64, now: u64, group: Option<&String>) {
        for (_, tracked) in self.watch.runs() {
            let Standing::Live { since_ms } = tracked.standing else { continue };
            if group.is_none() || tracked.share.group.as_ref() == group {
                spending.add_under_way(now.saturating_sub(since_ms.max(from_ms)));
            }
        }
    }
}
