//! Budgets in the configuration, and the budget check without a daemon.

pub mod budget;
pub mod group_record;
pub mod tally;

use ground::now_ms;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use run_journal::{RunFilter, RunOverview, Which};
use run_protocol::{Budget, CountLimit, ExitCode, HumanDuration};
use serde::Deserialize;

use crate::command_error::{CommandError, OrFail};
use crate::config::Config;
use crate::host::{Host, list_runs};
use crate::words::talk::note;
use budget::{Overspent, Spending, judge};
use group_record::GroupRecord;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// `[budgets]` in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetsConfig {
    pub day: BudgetConfig,
    pub group: BudgetConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetConfig {
    tool_calls: CountLimit,
    time: HumanDuration,
    tokens: CountLimit,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        let none = CountLimit(0);
        Self { tool_calls: none, time: HumanDuration::Unlimited, tokens: none }
    }
}

impl BudgetConfig {
    pub fn budget(self) -> Budget {
        Budget {
            tool_calls: self.tool_calls.limit(),
            time_ms: CountLimit(self.time.milliseconds()).limit(),
            tokens: self.tokens.limit(),
        }
    }
}

/// The beginning and end of the day that contains `now_ms`, in the user's time zone.
pub fn day(now_ms: u64) -> (u64, u64) {
    let bounds = || {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let began = now.to_zoned(TimeZone::system()).start_of_day().ok()?;
        let ends = began.checked_add(1.day()).ok()?;
        let ms = |at: Timestamp| u64::try_from(at.as_millisecond()).ok();
        Some((ms(began.timestamp())?, ms(ends.timestamp())?))
    };
    // If the clock is so wrong that jiff fails, count days in UTC.
    bounds().unwrap_or((now_ms - now_ms % DAY_MS, now_ms - now_ms % DAY_MS + DAY_MS))
}

/// The budget of a group: its own, or the default of all groups.
pub fn of_group(host: &Host, config: &Config, group: &str) -> Budget {
    let own = GroupRecord::read(&host.state, group).budget;
    own.unwrap_or_else(|| config.budgets.group.budget())
}

/// The usage of these runs since `since_ms`.
pub fn spending<'a>(runs: impl IntoIterator<Item = &'a RunOverview>, since_ms: u64) -> Spending {
    let now = now_ms();
    let mut spending = Spending::default();
    runs.into_iter().for_each(|run| spending.add_run(run, since_ms, now));
    spending
}

/// The usage of a group, including removed runs. `runs` are all runs; list them before this call.
pub fn spending_of_group<'a>(
    host: &Host,
    group: &str,
    runs: impl IntoIterator<Item = &'a RunOverview>,
) -> Spending {
    GroupRecord::read(&host.state, group).spending(group, runs, now_ms())
}

/// All runs.
pub fn all_runs(host: &Host) -> Result<Vec<RunOverview>, CommandError> {
    list_runs(&host.state, &RunFilter { which: Which::All, ..RunFilter::default() })
        .or_fail(|| "cannot read the runs' usage")
}

/// An exhausted budget.
struct SpentBudget {
    what: String,
    hint: String,
}

/// The sentence about an exhausted budget, such as `the budget of group x`.
pub fn spent_line(budget: &str, spent: &Overspent) -> String {
    go_on(&exhausted(budget, spent))
}

fn exhausted(budget: &str, spent: &Overspent) -> String {
    format!("{budget} is exhausted: {spent}")
}

/// A budget does not stop live runs; their own limits do.
fn go_on(what: &str) -> String {
    format!("{what}; live runs go on, no new runs start")
}

/// A group's budget, in sentences.
pub fn budget_of_group(group: &str) -> String {
    format!("the budget of group `{group}`")
}

/// Prints a note at the end of a run if the budget of its group or of the day is exhausted.
pub fn note_if_spent(host: &Host, config: &Config, group: Option<&str>) {
    if let Ok(Some(SpentBudget { what, .. })) = spent_budget(host, config, group) {
        note(&go_on(&what));
    }
}

/// Refuses a run that the daemon would not start either.
pub fn check(host: &Host, config: &Config, group: Option<&str>) -> Result<(), CommandError> {
    match spent_budget(host, config, group)? {
        Some(SpentBudget { what, hint }) => {
            Err(CommandError::new(ExitCode::QuotaExceeded, what).hint(hint))
        }
        None => Ok(()),
    }
}

/// The exhausted budget that prevents a run of this group.
fn spent_budget(
    host: &Host,
    config: &Config,
    group: Option<&str>,
) -> Result<Option<SpentBudget>, CommandError> {
    let day_budget = config.budgets.day.budget();
    let group_budget = group.map(|group| (group, of_group(host, config, group)));
    let group_budget = group_budget.filter(|(_, budget)| budget.is_set());
    if !day_budget.is_set() && group_budget.is_none() {
        return Ok(None);
    }
    let runs = all_runs(host)?;
    if let Some(spent) = judge(&day_budget, &spending(&runs, day(now_ms()).0)) {
        let what = exhausted("today's budget", &spent);
        let hint = "wait until tomorrow, or raise `[budgets.day]` in the configuration".to_owned();
        return Ok(Some(SpentBudget { what, hint }));
    }
    let Some((group, budget)) = group_budget else { return Ok(None) };
    let spent = judge(&budget, &spending_of_group(host, group, &runs));
    Ok(spent.map(|spent| SpentBudget {
        what: exhausted(&budget_of_group(group), &spent),
        hint: format!("raise it with `caretaker group budget {group} …`"),
    }))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_day_contains_its_moments() {
        let now = 1_790_000_000_000;
        let (began, ends) = day(now);
        assert!(began <= now && now < ends);
        assert!((22..=26).contains(&((ends - began) / 3_600_000)));
        assert_eq!(day(ends - 1), (began, ends));
    }
}
