//! Who decided a part of a plan.

use std::fmt;

use serde::Deserialize;

/// Who decided a part of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Origin {
    /// A line in a profile, as in `default.toml:12`.
    Profile(String),
    /// The run: its workspace, its agent, its directories.
    Run,
    /// Caretaker, under every profile.
    Always,
}

impl From<String> for Origin {
    fn from(line: String) -> Self {
        Self::Profile(line)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` lets a table align the text.
        formatter.pad(match self {
            Self::Profile(line) => line,
            Self::Run => "this run",
            Self::Always => "always",
        })
    }
}

/// A value, and who decided it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}
