//! Budgets as people write them, and the look at them where no daemon looks.

pub mod budget;
pub mod group_record;
pub mod tally;

use std::str::FromStr;

use ground::now_ms;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use run_journal::{RunFilter, RunOverview, Which};
use run_protocol::ExitCode;
use serde::{Deserialize, Deserializer, de};

use crate::command_error::{CommandError, OrFail};
use crate::config::Config;
use crate::host::{Host, list_runs};
use crate::words::human_duration::HumanDuration;
use crate::words::talk::note;
use budget::{Budget, Overspent, Spending, judge};
use group_record::GroupRecord;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// A number, or no limit: zero. `5k` and `2M` are thousands and millions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountLimit(pub u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotABudget {
    #[error("`{0}` is not a number; write `500`, `20k`, `5M` or `none`")]
    Count(String),
    #[error("write tool_calls=N, time=DURATION, tokens=N, or several of them with commas between")]
    Form,
    #[error("`{0}` cannot be limited; tool_calls, time and tokens can")]
    Name(String),
    #[error("`{0}` is there twice")]
    Twice(String),
    #[error(transparent)]
    Time(#[from] crate::words::human_duration::NotADuration),
}

impl CountLimit {
    fn limit(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

impl FromStr for CountLimit {
    type Err = NotABudget;

    fn from_str(text: &str) -> Result<Self, NotABudget> {
        let refused = || NotABudget::Count(text.to_owned());
        let number = text.trim();
        if number == "none" {
            return Ok(Self(0));
        }
        let (digits, factor) = match number.char_indices().last() {
            Some((at, 'k' | 'K')) => (&number[..at], 1_000),
            Some((at, 'm' | 'M')) => (&number[..at], 1_000_000),
            _ => (number, 1),
        };
        // What `parse` takes beside digits is a sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let number: u64 = digits.parse().map_err(|_| refused())?;
        number.checked_mul(factor).map(Self).ok_or_else(refused)
    }
}

impl<'de> Deserialize<'de> for CountLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// `tool_calls=500,time=8h,tokens=5M`; `none` for no limit at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetOption(pub Budget);

impl FromStr for BudgetOption {
    type Err = NotABudget;

    fn from_str(text: &str) -> Result<Self, NotABudget> {
        let mut budget = Budget::default();
        if text.trim() == "none" {
            return Ok(Self(budget));
        }
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let (name, amount) = part.split_once('=').ok_or(NotABudget::Form)?;
            let name = name.trim();
            match name {
                "tool_calls" => budget.tool_calls = amount.parse::<CountLimit>()?.limit(),
                "tokens" => budget.tokens = amount.parse::<CountLimit>()?.limit(),
                "time" => budget.time_ms = time(amount.parse()?),
                name => return Err(NotABudget::Name(name.to_owned())),
            }
            if seen.contains(&name) {
                return Err(NotABudget::Twice(name.to_owned()));
            }
            seen.push(name);
        }
        Ok(Self(budget))
    }
}

fn time(duration: HumanDuration) -> Option<u64> {
    Some(duration.milliseconds()).filter(|milliseconds| *milliseconds > 0)
}

/// `[budgets]` of the configuration.
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
            time_ms: time(self.time),
            tokens: self.tokens.limit(),
        }
    }
}

/// When the day began that a moment is in, where the user lives, and when it ends.
pub fn day(now_ms: u64) -> (u64, u64) {
    let bounds = || {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let began = now.to_zoned(TimeZone::system()).start_of_day().ok()?;
        let ends = began.checked_add(1.day()).ok()?;
        let ms = |at: Timestamp| u64::try_from(at.as_millisecond()).ok();
        Some((ms(began.timestamp())?, ms(ends.timestamp())?))
    };
    // A clock that is nowhere near has days all the same.
    bounds().unwrap_or((now_ms - now_ms % DAY_MS, now_ms - now_ms % DAY_MS + DAY_MS))
}

/// What the runs of a group may spend: its own budget, or that of every group.
pub fn of_group(host: &Host, config: &Config, group: &str) -> Budget {
    let own = GroupRecord::read(&host.state, group).budget;
    own.unwrap_or_else(|| config.budgets.group.budget())
}

/// What these runs have spent since then.
pub fn spending<'a>(runs: impl IntoIterator<Item = &'a RunOverview>, since_ms: u64) -> Spending {
    let now = now_ms();
    let mut spending = Spending::default();
    runs.into_iter().for_each(|run| spending.add_run(run, since_ms, now));
    spending
}

/// What a group has spent, with what of it was removed. `runs` are all there are, listed before.
pub fn spending_of_group<'a>(
    host: &Host,
    group: &str,
    runs: impl IntoIterator<Item = &'a RunOverview>,
) -> Spending {
    GroupRecord::read(&host.state, group).spending(group, runs, now_ms())
}

/// Every run there is.
pub fn all_runs(host: &Host) -> Result<Vec<RunOverview>, CommandError> {
    list_runs(&host.state, &RunFilter { which: Which::All, ..RunFilter::default() })
        .or_fail(|| "what was spent cannot be looked up")
}

/// A budget of which nothing is left.
struct SpentBudget {
    what: String,
    hint: String,
}

/// Says whose budget is spent: of `the day`, or of a group.
pub fn spent_line(whose: &str, spent: &Overspent) -> String {
    go_on(&what_is_spent(whose, spent))
}

fn what_is_spent(whose: &str, spent: &Overspent) -> String {
    format!("the budget of {whose} is spent: {spent}")
}

/// A budget stops nothing that is live; the limits of a run do that.
fn go_on(what: &str) -> String {
    format!("{what}; runs that are live go on, and no new ones start")
}

/// A group as it is called in sentences about its budget.
pub fn group_words(group: &str) -> String {
    format!("group `{group}`")
}

/// Says at the end of a run that its group, or the day, has nothing left to spend.
pub fn note_if_spent(host: &Host, config: &Config, group: Option<&str>) {
    if let Ok(Some(SpentBudget { what, .. })) = spent_budget(host, config, group) {
        note(&go_on(&what));
    }
}

/// Refuses a run that no daemon would admit either.
pub fn check(host: &Host, config: &Config, group: Option<&str>) -> Result<(), CommandError> {
    match spent_budget(host, config, group)? {
        Some(SpentBudget { what, hint }) => {
            Err(CommandError::new(ExitCode::QuotaExceeded, what).hint(hint))
        }
        None => Ok(()),
    }
}

/// The budget that keeps a run of this group from starting.
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
        let what = what_is_spent("the day", &spent);
        let hint = "wait until tomorrow, or raise `[budgets.day]` of the configuration".to_owned();
        return Ok(Some(SpentBudget { what, hint }));
    }
    let Some((group, budget)) = group_budget else { return Ok(None) };
    let spent = judge(&budget, &spending_of_group(host, group, &runs));
    Ok(spent.map(|spent| SpentBudget {
        what: what_is_spent(&group_words(group), &spent),
        hint: format!("raise it with `caretaker group budget {group} …`"),
    }))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_may_be_short_and_what_is_none_is_refused() {
        let parsed = |text: &str| text.parse::<CountLimit>().map(|limit| limit.0);
        assert_eq!(
            ["500", "20k", "5M", "none", "0"].map(|it| parsed(it).unwrap()),
            [500, 20_000, 5_000_000, 0, 0]
        );
        for text in
            ["", "k", "-1", "+1", "1.5M", "many", "99999999999999999999", "20000000000000000M"]
        {
            assert_eq!(parsed(text), Err(NotABudget::Count(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_budget_names_what_it_limits() {
        let budget: BudgetOption = "tool_calls=500, time=8h,tokens=5M".parse().unwrap();
        assert_eq!(
            budget.0,
            Budget { tool_calls: Some(500), time_ms: Some(8 * 3_600_000), tokens: Some(5_000_000) }
        );
        assert_eq!("none".parse::<BudgetOption>().unwrap().0, Budget::default());
        for (text, part) in [
            ("500", "tool_calls=N"),
            ("money=5", "`money` cannot be limited"),
            ("tokens=1,tokens=2", "`tokens` is there twice"),
            ("time=soon", "not a duration"),
        ] {
            let error = text.parse::<BudgetOption>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_day_has_its_moments_in_it() {
        let now = 1_790_000_000_000;
        let (began, ends) = day(now);
        assert!(began <= now && now < ends);
        assert!((22..=26).contains(&((ends - began) / 3_600_000)));
        assert_eq!(day(ends - 1), (began, ends));
    }
}
