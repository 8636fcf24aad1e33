//! Judges whether the runs of a group or a day have exhausted their budget. A pure function.
//!
//! A budget does not stop live runs; their own limits do. Unknown usage is not zero: a run with unknown usage counts as much
//! as the run with the highest known usage. If no usage is known, no more runs start.

use std::fmt;

use run_journal::{RunOverview, RunState};
use run_protocol::{Budget, Spend};
use serde::{Deserialize, Serialize};

use crate::words::units::span;

/// The quantities that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tool calls.
    ToolCalls,
    /// The agents' time in milliseconds.
    Time,
    /// Tokens.
    Tokens,
}

/// The runs that share a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// All runs of a day.
    Day,
    /// The runs of a group.
    Group,
}

/// The sum of one quantity over many runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The sum of the known amounts.
    pub known: u64,
    /// The number of runs with an unknown amount.
    pub n_unknown: u32,
    /// The highest known amount of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dearest: Option<u64>,
}

impl Sum {
    fn add(&mut self, amount: Option<u64>) {
        match amount {
            Some(amount) => {
                self.known = self.known.saturating_add(amount);
                self.dearest = Some(self.dearest.unwrap_or(0).max(amount));
            }
            None => self.n_unknown = self.n_unknown.saturating_add(1),
        }
    }

    /// The amount that each run with unknown usage counts as; `None` if no amount is known.
    pub fn each_unknown(&self) -> Option<u64> {
        // A run that used nothing says nothing about the other runs.
        self.dearest.filter(|dearest| *dearest > 0)
    }

    /// The sum if each unknown amount is as high as the highest known one; `None` if no amount is known.
    fn expected(&self) -> Option<u64> {
        match (self.n_unknown, self.each_unknown()) {
            (0, _) => Some(self.known),
            (_, None) => None,
            (n, Some(each)) => Some(self.known.saturating_add(each.saturating_mul(n.into()))),
        }
    }

    fn merge(&mut self, other: Self) {
        self.known = self.known.saturating_add(other.known);
        self.n_unknown = self.n_unknown.saturating_add(other.n_unknown);
        self.dearest = self.dearest.max(other.dearest);
    }
}

/// The usage of many runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Tool calls.
    pub tool_calls: Sum,
    /// Milliseconds.
    pub time_ms: Sum,
    /// Tokens.
    pub tokens: Sum,
}

impl Spending {
    /// Adds the usage of an ended run.
    pub fn add(&mut self, spend: Spend) {
        self.tool_calls.add(spend.tool_calls);
        self.time_ms.add(spend.time_ms);
        self.tokens.add(spend.tokens);
    }

    /// Adds the usage of other runs.
    pub fn merge(&mut self, other: Self) {
        self.tool_calls.merge(other.tool_calls);
        self.time_ms.merge(other.time_ms);
        self.tokens.merge(other.tokens);
    }

    /// Adds the time of a live run. The rest of its usage is unknown until it ends.
    pub fn add_under_way(&mut self, time_ms: u64) {
        self.time_ms.known = self.time_ms.known.saturating_add(time_ms);
    }

    /// Adds a run, if its last event is not before `since_ms`.
    pub(crate) fn add_run(&mut self, run: &RunOverview, since_ms: u64, now_ms: u64) {
        match (&run.state, run.spent) {
            (RunState::Running { since_ms: began, .. }, _) => {
                self.add_under_way(now_ms.saturating_sub(since_ms.max(*began)));
            }
            (_, Some(spend)) if run.last_event_ms >= since_ms => self.add(spend),
            _ => {}
        }
    }
}

/// An exhausted budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Overspent {
    /// The exhausted quantity.
    pub kind: BudgetKind,
    /// The known usage; milliseconds for time.
    pub spent: u64,
    /// The number of runs with unknown usage.
    pub n_unknown: u32,
    /// The amount that each of them counts as: the highest known amount. Left out if no amount is known; then no more runs
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_unknown: Option<u64>,
    /// The limit.
    pub limit: u64,
}

/// The first exhausted quantity, if any.
pub fn judge(budget: &Budget, spending: &Spending) -> Option<Overspent> {
    [
        (BudgetKind::ToolCalls, budget.tool_calls, &spending.tool_calls),
        (BudgetKind::Time, budget.time_ms, &spending.time_ms),
        (BudgetKind::Tokens, budget.tokens, &spending.tokens),
    ]
    .into_iter()
    .find_map(|(kind, limit, sum)| {
        let limit = limit?;
        let is_within = sum.expected().is_some_and(|expected| expected < limit);
        let Sum { known: spent, n_unknown, .. } = *sum;
        let each_unknown = sum.each_unknown().filter(|_| n_unknown > 0);
        (!is_within).then_some(Overspent { kind, spent, n_unknown, each_unknown, limit })
    })
}

impl fmt::Display for Overspent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, spent, n_unknown, each_unknown, limit } = self;
        match kind {
            BudgetKind::ToolCalls => write!(formatter, "{spent} of {limit} tool calls")?,
            BudgetKind::Tokens => write!(formatter, "{spent} of {limit} tokens")?,
            BudgetKind::Time => {
                write!(formatter, "{} of {} of agent time", span(*spent), span(*limit))?;
            }
        }
        formatter.write_str(" used")?;
        let counts = match n_unknown {
            0 => return Ok(()),
            1 => {
                formatter.write_str("; 1 run did not report its usage")?;
                "counts"
            }
            n => {
                write!(formatter, "; {n} runs did not report their usage")?;
                "each count"
            }
        };
        match each_unknown {
            None => formatter.write_str(", nor did any other run"),
            Some(each) => {
                let each = match kind {
                    BudgetKind::Time => span(*each),
                    BudgetKind::ToolCalls | BudgetKind::Tokens => each.to_string(),
                };
                write!(formatter, " and {counts} as {each}, the highest usage of a run")
            }
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
