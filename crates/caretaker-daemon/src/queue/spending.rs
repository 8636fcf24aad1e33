//! The tool calls, time and tokens of ended runs, for the budgets. The daemon reads them from the journals when it
//! starts, and keeps them up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use admission::budgets::budget::{Spending, judge};
use admission::budgets::day;
use admission::budgets::group_record::GroupRecord;
use ground::{lock, now_ms};
use run_journal::{RunOverview, StateRoot};
use run_protocol::{RunId, Spend};

use crate::daemon::Daemon;
use crate::run_watch::Standing;
use crate::schedule::{SpentBudgets, WaitingRun};

#[derive(Debug, Default)]
pub(crate) struct SpentByRuns(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    runs: BTreeMap<RunId, Entry>,
    /// How many runs of each group were removed when its entries were last compared with the disk.
    n_gone: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Entry {
    group: Option<String>,
    /// The time of its last event, which decides the day that the run counts towards.
    at_ms: u64,
    spend: Spend,
}

impl SpentByRuns {
    pub(crate) fn new(over: &[RunOverview]) -> Self {
        let spent = Self::default();
        over.iter().for_each(|overview| spent.add(overview));
        spent
    }

    /// Adds an ended run. A second call for the same run changes nothing.
    pub(crate) fn add(&self, overview: &RunOverview) {
        let Some(spend) = overview.spent else { return };
        let entry = Entry { group: overview.group.clone(), at_ms: overview.last_event_ms, spend };
        lock(&self.0).runs.insert(overview.run, entry);
    }

    fn spending_since(&self, began_ms: u64) -> Spending {
        let mut spending = Spending::default();
        let entries = lock(&self.0);
        let of_day = entries.runs.values().filter(|entry| entry.at_ms >= began_ms);
        of_day.for_each(|entry| spending.add(entry.spend));
        spending
    }

    /// The total for the runs on disk, plus the total for removed runs from the record. First drops entries of removed
    /// runs.
    fn spending_of(&self, state: &StateRoot, group: &str, record: &GroupRecord) -> Spending {
        let mut guard = lock(&self.0);
        let Entries { runs, n_gone } = &mut *guard;
        let is_of_it = |entry: &Entry| entry.group.as_deref() == Some(group);
        let mut spending = Spending::default();
        if let Some(gone) = &record.gone {
            if n_gone.insert(group.to_owned(), gone.n_runs) != Some(gone.n_runs) {
                runs.retain(|run, entry| !is_of_it(entry) || state.run_dir(run).exists());
            }
            spending.merge(gone.spent);
        }
        let there =
            runs.iter().filter(|(run, entry)| is_of_it(entry) && !record.has_counted(**run));
        there.for_each(|(_, entry)| spending.add(entry.spend));
        spending
    }
}

impl Daemon {
    /// The exhausted budgets that hold back waiting runs.
    pub(crate) fn budgets(&self, waiting: &[WaitingRun]) -> SpentBudgets {
        let mut spent = SpentBudgets::default();
        if waiting.is_empty() {
            return spent;
        }
        let now = now_ms();
        let day_budget = &self.config.day_budget;
        if day_budget.is_set() {
            let (began_ms, ends_ms) = day(now);
            let mut spending = self.spent.spending_since(began_ms);
            self.add_live(&mut spending, began_ms, now, None);
            spent.day = judge(day_budget, &spending);
            spent.day_ends_ms = ends_ms;
        }
        let groups: BTreeSet<&String> =
            waiting.iter().filter_map(|run| run.share.group.as_ref()).collect();
        for group in groups {
            let record = GroupRecord::read(self.state(), group);
            let budget = record.budget.unwrap_or(self.config.group_budget);
            if !budget.is_set() {
                continue;
            }
            let mut spending = self.spent.spending_of(self.state(), group, &record);
            self.add_live(&mut spending, 0, now, Some(group));
            if let Some(overspent) = judge(&budget, &spending) {
                spent.groups.insert(group.clone(), overspent);
            }
        }
        spent
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
