//! What a run waits for: for programs by its kind, for people in one sentence.

use std::fmt;

use admission::budgets::budget::{BudgetScope, Overspent};
use admission::config::caps::CapKind;
use admission::request::named_secret::LOGIN_KEYS;
use run_protocol::RunId;
use serde::{Deserialize, Serialize};

/// What a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "waits_for", rename_all = "snake_case")]
pub enum Waiting {
    /// Its time has not come.
    Time {
        /// Milliseconds since the epoch.
        until_ms: u64,
        /// From now.
        in_ms: u64,
    },
    /// Other runs are to end first.
    Runs {
        /// Those that are not over.
        runs: Vec<RunId>,
        /// Whether they have to succeed.
        to_succeed: bool,
    },
    /// The queue is paused.
    Resumption,
    /// The disk is nearly full.
    DiskBlocked {
        /// What is free.
        free_bytes: u64,
        /// What must be.
        needed_bytes: u64,
    },
    /// The daemon was not given the keys, or forgot them when it was restarted.
    Keys {
        /// The variables.
        names: Vec<String>,
    },
    /// Another run has its workspace, or one inside or around it.
    Workspace {
        /// Which.
        run: RunId,
    },
    /// Another run has its session.
    Session {
        /// Which.
        run: RunId,
    },
    /// The account was rate limited, and nothing is started for a while.
    RateLimit {
        /// Whose.
        account: String,
        /// From now.
        in_ms: u64,
    },
    /// So many run already.
    Cap {
        /// Which cap.
        cap: CapKind,
        /// Of what; empty for all runs together.
        name: String,
        /// How many run.
        running: u32,
        /// How many may.
        limit: u32,
        /// How many of those that wait come before it.
        before: u32,
    },
    /// A budget is spent.
    Budget {
        /// Whose.
        scope: BudgetScope,
        /// Of which group; empty for the day.
        name: String,
        /// What of it.
        spent: Overspent,
    },
    /// It could not be started a moment ago, and is tried again.
    Retry {
        /// What went wrong.
        problem: String,
        /// From now.
        in_ms: u64,
    },
    /// Its turn has come.
    Start,
}

impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { in_ms, .. } => {
                write!(formatter, "it is not to start for another {}", span(*in_ms))
            }
            Self::Runs { runs, to_succeed } => {
                let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
                let how = if *to_succeed { "succeed" } else { "end" };
                let plural = if runs.len() == 1 { "run" } else { "runs" };
                write!(formatter, "it waits for {plural} {} to {how}", runs.join(", "))
            }
            Self::Resumption => formatter.write_str("the queue is paused"),
            Self::DiskBlocked { free_bytes, needed_bytes } => write!(
                formatter,
                "the disk has {} MiB free and {} MiB are wanted",
                free_bytes >> 20,
                needed_bytes >> 20
            ),
            Self::Keys { names } => {
                let (keys, secrets): (Vec<&str>, Vec<&str>) =
                    names.iter().map(String::as_str).partition(|name| LOGIN_KEYS.contains(name));
                formatter.write_str("the daemon does not have ")?;
                if !keys.is_empty() {
                    let keys = keys.join(" and ");
                    write!(formatter, "{keys} any more, which the run logs in with")?;
                }
                if !secrets.is_empty() {
                    let and = if keys.is_empty() { "" } else { ", nor " };
                    let what = if secrets.len() == 1 { "secret" } else { "secrets" };
                    let secrets = secrets.join(" and ");
                    write!(formatter, "{and}the {what} {secrets} any more, given with --secret")?;
                }
                // A daemon may have keys of its own; what a user called a secret is known to nobody else.
                formatter.write_str(if secrets.is_empty() {
                    "; start the daemon anew where it is set"
                } else {
                    "; secrets are on no disk: kill the run, and queue it anew with them"
                })
            }
            Self::Workspace { run } => write!(formatter, "run {run} has the workspace"),
            Self::Session { run } => write!(formatter, "run {run} has the session"),
            Self::RateLimit { account, in_ms } => write!(
                formatter,
                "account `{account}` was rate limited; nothing of it starts for another {}",
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
                    0 => formatter.write_str("; it is the next"),
                    1 => formatter.write_str("; one that waits comes before it"),
                    n => write!(formatter, "; {n} that wait come before it"),
                }
            }
            Self::Budget { scope: BudgetScope::Day, spent, .. } => {
                write!(formatter, "the budget of the day is spent: {spent}")
            }
            Self::Budget { scope: BudgetScope::Group, name, spent } => {
                write!(formatter, "the budget of group `{name}` is spent: {spent}")
            }
            Self::Retry { problem, in_ms } => {
                write!(formatter, "{problem}; it is tried again in {}", span(*in_ms))
            }
            Self::Start => formatter.write_str("it is about to start"),
        }
    }
}

/// A span of time in a word or two.
fn span(ms: u64) -> String {
    match ms.div_ceil(1000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_logs_in_with_is_told_from_what_it_was_given() {
        let told = |names: &[&str]| {
            Waiting::Keys { names: names.iter().map(ToString::to_string).collect() }.to_string()
        };
        let login = told(&["CURSOR_API_KEY"]);
        assert!(login.contains("CURSOR_API_KEY any more, which the run logs in with;"), "{login}");
        let secret = told(&["DB_PASS"]);
        assert!(secret.contains("not have the secret DB_PASS any more, given with"), "{secret}");
        assert!(!secret.contains("logs in"), "{secret}");
        let both = told(&["DB_PASS", "CURSOR_AUTH_TOKEN", "OTHER"]);
        let words = "CURSOR_AUTH_TOKEN any more, which the run logs in with, nor the secrets DB_PASS and OTHER";
        assert!(both.contains(words), "{both}");
    }
}
