//! Budgets: the most that the runs of a group, or of a day, may spend together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{CountLimit, HumanDuration, NotACount, NotADuration, text_serde};

/// A budget. A field that is left out is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// The agents' time, added up: two agents that run side by side for an hour use two hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Tokens, as agents report them at the end of their turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// A budget as text: `tool_calls=500,time=8h,tokens=5M`, or `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBudget(pub Budget);

/// Why a text is not a budget.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotABudget {
    #[error(transparent)]
    Count(#[from] NotACount),
    #[error("write tool_calls=N, time=DURATION, tokens=N, or several of them separated by commas")]
    Form,
    #[error("`{0}` cannot be limited; tool_calls, time and tokens can")]
    Name(String),
    #[error("`{0}` occurs twice")]
    Twice(String),
    #[error(transparent)]
    Time(#[from] NotADuration),
}

impl FromStr for WrittenBudget {
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
                "time" => budget.time_ms = time(amount)?,
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

fn time(text: &str) -> Result<Option<u64>, NotADuration> {
    let milliseconds = text.parse::<HumanDuration>()?.milliseconds();
    Ok(Some(milliseconds).filter(|milliseconds| *milliseconds > 0))
}

impl fmt::Display for WrittenBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { tool_calls, time_ms, tokens } = self.0;
        let parts = [
            tool_calls.map(|most| format!("tool_calls={}", CountLimit(most))),
            time_ms.map(|most| format!("time={}", HumanDuration::of_milliseconds(most))),
            tokens.map(|most| format!("tokens={}", CountLimit(most))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        formatter.write_str(if parts.is_empty() { "none" } else { "" })?;
        formatter.write_str(&parts.join(","))
    }
}

text_serde!(WrittenBudget, "a budget, as in `tool_calls=500,time=8h`");

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
