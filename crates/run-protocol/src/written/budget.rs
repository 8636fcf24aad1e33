//! What the runs of a group, or of a day, may spend together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{CountLimit, HumanDuration, NotACount, NotADuration, text_serde};

/// What may be spent; what is not named is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tools that agents call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// The time of agents, added up: two that run side by side for an hour take two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Tokens, as agents say at the end of their turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl Budget {
    /// Whether anything is limited.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// `tool_calls=500,time=8h,tokens=5M`; `none` for no limit at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBudget(pub Budget);

/// The text is no budget.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotABudget {
    /// An amount is no number.
    #[error(transparent)]
    Count(#[from] NotACount),
    /// There is no `=`.
    #[error("write tool_calls=N, time=DURATION, tokens=N, or several of them with commas between")]
    Form,
    /// It names something else.
    #[error("`{0}` cannot be limited; tool_calls, time and tokens can")]
    Name(String),
    /// It names something twice.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// The time is no duration.
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_budget_names_what_it_limits() {
        let budget: WrittenBudget = "tool_calls=500, time=8h,tokens=5M".parse().unwrap();
        assert_eq!(
            budget.0,
            Budget { tool_calls: Some(500), time_ms: Some(8 * 3_600_000), tokens: Some(5_000_000) }
        );
        assert_eq!("none".parse::<WrittenBudget>().unwrap().0, Budget::default());
        for (text, part) in [
            ("500", "tool_calls=N"),
            ("money=5", "`money` cannot be limited"),
            ("tokens=1,tokens=2", "`tokens` is there twice"),
            ("time=soon", "not a duration"),
        ] {
            let error = text.parse::<WrittenBudget>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
