//! Why a run waits: a kind for programs, a sentence for users.

use std::fmt;

use admission::budgets::budget::{BudgetScope, Overspent};
use admission::config::caps::CapKind;
use admission::request::named_secret::LOGIN_KEYS;
use admission::words::units::span;
use run_protocol::RunId;
use serde::{Deserialize, Serialize};

/// Why a queued run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "waits_for", rename_all = "snake_case")]
pub enum Waiting {
    /// The run's delay is not over.
    Time {
        /// When it is over, in milliseconds since the epoch.
        until_ms: u64,
        /// The time from now, in milliseconds.
        in_ms: u64,
    },
    /// Other runs must end first.
    Runs {
        /// The runs that have not ended.
        runs: Vec<RunId>,
        /// True if they must succeed.
        to_succeed: bool,
    },
    /// The queue is paused.
    Resumption,
    /// The disk is nearly full.
    DiskBlocked {
        /// The free space.
        free_bytes: u64,
        /// The space that must be free.
        needed_bytes: u64,
    },
    /// The daemon does not have the run's keys: it never got them, or it has restarted.
    Keys {
        /// The names of the keys.
        names: Vec<String>,
    },
    /// Another run uses the workspace, or a directory inside or around it.
    Workspace {
        /// The other run.
        run: RunId,
    },
    /// Another run uses the session.
    Session {
        /// The other run.
        run: RunId,
    },
    /// The account is rate limited: none of its runs starts for a while.
    RateLimit {
        /// The account.
        account: String,
        /// The time from now, in milliseconds.
        in_ms: u64,
    },
    /// As many runs as the cap allows are live.
    Cap {
        /// The kind of cap.
        cap: CapKind,
        /// The group, model or account; empty for all runs together.
        name: String,
        /// The number of live runs.
        running: u32,
        /// The cap.
        limit: u32,
        /// The number of waiting runs ahead of this one.
        before: u32,
    },
    /// A budget is exhausted.
    Budget {
        /// The day, or a group.
        scope: BudgetScope,
        /// The group's name; empty for the day's budget.
        name: String,
        /// The exhausted quantity.
        spent: Overspent,
    },
    /// A start failed, and the daemon will try again.
    Retry {
        /// Why it failed.
        problem: String,
        /// The time from now, in milliseconds.
        in_ms: u64,
    },
    /// The run is about to start.
    Start,
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { in_ms, .. } => {
                write!(formatter, "starts in {}", span(*in_ms))
            }
            Self::Runs { runs, to_succeed } => {
                let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
                let how = if *to_succeed { "succeed" } else { "end" };
                let plural = if runs.len() == 1 { "run" } else { "runs" };
                write!(formatter, "waiting for {plural} {} to {how}", runs.join(", "))
            }
            Self::Resumption => formatter.write_str("the queue is paused"),
            Self::DiskBlocked { free_bytes, needed_bytes } => write!(
                formatter,
                "the disk has {} MiB free, {} MiB are needed",
                free_bytes >> 20,
                needed_bytes >> 20
            ),
            Self::Keys { names } => {
                let (keys, secrets): (Vec<&str>, Vec<&str>) =
                    names.iter().map(String::as_str).partition(|name| LOGIN_KEYS.contains(name));
                formatter.write_str("the daemon does not have ")?;
                if !keys.is_empty() {
                    let keys = keys.join(" and ");
                    write!(formatter, "the login key {keys}")?;
                }
                if !secrets.is_empty() {
                    let and = if keys.is_empty() { "" } else { " and " };
                    let what = if secrets.len() == 1 { "secret" } else { "secrets" };
                    let secrets = secrets.join(" and ");
                    write!(formatter, "{and}the {what} {secrets}")?;
                }
                // A daemon may have a login key in its own environment, but never a secret that the user named.
                formatter.write_str(if secrets.is_empty() {
                    " any more; restart it where the key is set"
                } else {
                    " any more; secrets are never on disk: kill the run, and queue it again with them"
                })
            }
            Self::Workspace { run } => write!(formatter, "workspace in use by run {run}"),
            Self::Session { run } => write!(formatter, "session in use by run {run}"),
            Self::RateLimit { account, in_ms } => write!(
                formatter,
                "account `{account}` is rate limited; its next run starts in {}",
                span(*in_ms)
            ),
            Self::Cap { cap, name, running, limit, before } => {
                let whose = match cap {
                    CapKind::Total => String::new(),
                    CapKind::Group => format!(" of group `{name}`"),
                    CapKind::Model => format!(" with model `{name}`"),
                    CapKind::Account => format!(" of account `{name}`"),
                };
                write!(formatter, "{running} of at most {limit} runs{whose} are under way")?;
                match before {
                    0 => formatter.write_str("; next in line"),
                    1 => formatter.write_str("; 1 run comes first"),
                    n => write!(formatter, "; {n} runs come first"),
                }
            }
            Self::Budget { scope: BudgetScope::Day, spent, .. } => {
                write!(formatter, "today's budget is exhausted: {spent}")
            }
            Self::Budget { scope: BudgetScope::Group, name, spent } => {
                write!(formatter, "the budget of group `{name}` is exhausted: {spent}")
            }
            Self::Retry { problem, in_ms } => {
                write!(formatter, "{problem}; next attempt in {}", span(*in_ms))
            }
            Self::Start => formatter.write_str("about to start"),
        }
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
