//! The state of a run and the reason for it, in one sentence.

use admission::words::units::span;
use run_journal::RunState;

use crate::schedule::Waiting;

/// The daemon's answer about a queued run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueWord {
    /// The daemon knows the reason.
    Waits(Waiting),
    /// The daemon has not decided on the run yet.
    Undecided,
    /// There is no daemon.
    NoDaemon,
}

/// Returns the sentence. `now_ms` is the current time.
pub fn why(state: &RunState, queue: &QueueWord, now_ms: u64) -> String {
    let ago = |ms: u64| span(now_ms.saturating_sub(ms));
    match state {
        RunState::Created => "its shim is starting".to_owned(),
        RunState::Queued { .. } => match queue {
            QueueWord::Waits(waiting) => format!("queued: {waiting}"),
            QueueWord::Undecided => "queued; the daemon has not decided yet".to_owned(),
            QueueWord::NoDaemon => {
                "queued; daemon not running: `caretaker daemon start`".to_owned()
            }
        },
        RunState::Waiting { reason } => format!("waiting: {reason}"),
        RunState::Starting => "the shim is setting up the sandbox".to_owned(),
        RunState::Running { since_ms, last_event_ms, progress } => {
            let mut text =
                format!("running for {}, last event {} ago", ago(*since_ms), ago(*last_event_ms));
            if let Some(progress) = progress {
                text.push_str(&format!(": {progress}"));
            }
            text
        }
        RunState::Ended { outcome, why, .. } => {
            let name = crate::queue::outcome_name(Some(outcome)).replace('_', " ");
            format!("ended ({name}): {why}")
        }
        RunState::Lost { why, unreadable: false } => format!("interrupted: {why}"),
        RunState::Lost { why, unreadable: true } => format!("outcome unknown: {why}"),
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
