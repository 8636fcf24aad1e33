//! Where a part of a plan comes from.

use std::fmt;

/// Who decided a part of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of a profile.
    Profile { profile: String, line: usize },
    /// The run: its workspace, its agent, its directories.
    Run,
    /// This program, whatever the profile says.
    Always,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // `pad`, so that a table can align it.
            Self::Profile { profile, line } => formatter.pad(&format!("{profile}.toml:{line}")),
            Self::Run => formatter.pad("this run"),
            Self::Always => formatter.pad("always"),
        }
    }
}

/// A value with the place where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}
