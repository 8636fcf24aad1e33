//! What runs may spend together before no more of them are started: a pure judgement.
//!
//! What is under way is not stopped by it: that is what limits of a run are for. And what nobody said is not zero: a run of
//! which it is not known counts as much as the dearest that is known, and where none is known, nothing more is started.

use std::fmt;

use run_journal::{RunOverview, RunState};
use run_protocol::{Budget, Spend};
use serde::{Deserialize, Serialize};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tools that agents call.
    ToolCalls,
    /// Milliseconds of agents.
    Time,
    /// Tokens.
    Tokens,
}

/// Of what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// Of all runs of a day.
    Day,
    /// Of the runs of a group.
    Group,
}

/// One thing that is counted, over many runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Of those of which it is known.
    pub known: u64,
    /// Runs of which it is not.
    pub n_unknown: u32,
    /// The most that one run is known to have taken.
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

    /// What each run counts as of which it is not known; `None` if nothing is known to go by.
    pub fn each_unknown(&self) -> Option<u64> {
        // A run that is known to have taken nothing is no measure of those that did something.
        self.dearest.filter(|dearest| *dearest > 0)
    }

    /// What it comes to where each that is not known is as dear as the dearest; `None` if nothing is known to go by.
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

/// What many runs took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Tools that agents called.
    pub tool_calls: Sum,
    /// Milliseconds.
    pub time_ms: Sum,
    /// Tokens.
    pub tokens: Sum,
}

impl Spending {
    /// Adds what a run took that is over.
    pub fn add(&mut self, spend: Spend) {
        self.tool_calls.add(spend.tool_calls);
        self.time_ms.add(spend.time_ms);
        self.tokens.add(spend.tokens);
    }

    /// Adds what others took.
    pub fn merge(&mut self, other: Self) {
        self.tool_calls.merge(other.tool_calls);
        self.time_ms.merge(other.time_ms);
        self.tokens.merge(other.tokens);
    }

    /// Adds the time so far of a run that goes on. What else it takes is known when it is over.
    pub fn add_under_way(&mut self, time_ms: u64) {
        self.time_ms.known = self.time_ms.known.saturating_add(time_ms);
    }

    /// Adds a run as it stands, if it counts from this moment on: by when it was last heard of.
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

/// A budget that is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Overspent {
    /// What of.
    pub kind: BudgetKind,
    /// What was taken, as far as it is known; milliseconds for time.
    pub spent: u64,
    /// Runs that did not say.
    pub n_unknown: u32,
    /// What each of them counts as: as much as the dearest that did say. Nothing where none did, and then nothing more is
    /// started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_unknown: Option<u64>,
    /// What may be.
    pub limit: u64,
}

/// The first of what is counted that is spent, if anything is.
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
                write!(formatter, "{} of {} of agents' time", minutes(*spent), minutes(*limit))?;
            }
        }
        formatter.write_str(" are taken")?;
        match n_unknown {
            0 => return Ok(()),
            1 => formatter.write_str(", and one run did not say what it took")?,
            n => write!(formatter, ", and {n} runs did not say what they took")?,
        }
        match (each_unknown, n_unknown) {
            (None, _) => formatter.write_str(", nor is any other known to go by"),
            (Some(each), n) => {
                let each = match kind {
                    BudgetKind::Time => minutes(*each),
                    BudgetKind::ToolCalls | BudgetKind::Tokens => each.to_string(),
                };
                let whom = if *n == 1 { "which" } else { "each of which" };
                write!(formatter, ", {whom} counts as the dearest that did: {each}")
            }
        }
    }
}

fn minutes(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
