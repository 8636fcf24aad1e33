//! Why a run stands as it stands, in one sentence.

use run_journal::RunState;

use crate::schedule::Waiting;

/// Who could tell what a queued run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueWord {
    /// The daemon says this.
    Waits(Waiting),
    /// The daemon has not decided about it yet.
    Undecided,
    /// There is no daemon.
    NoDaemon,
}

/// The sentence. `now_ms` is for how long ago things were.
pub fn why(state: &RunState, queue: &QueueWord, now_ms: u64) -> String {
    let ago = |ms: u64| span(now_ms.saturating_sub(ms));
    match state {
        RunState::Created => "its supervisor is being started".to_owned(),
        RunState::Queued { .. } => match queue {
            QueueWord::Waits(waiting) => format!("it is queued: {waiting}"),
            QueueWord::Undecided => "it is queued, and was not decided about yet".to_owned(),
            QueueWord::NoDaemon => {
                "it is queued, and there is no daemon to start it: `caretaker daemon start`"
                    .to_owned()
            }
        },
        RunState::Waiting { reason } => format!("it waits: {reason}"),
        RunState::Starting => "its sandbox is being set up".to_owned(),
        RunState::Running { since_ms, last_event_ms, progress } => {
            let mut text = format!(
                "it has been running for {}, and was last heard of {} ago",
                ago(*since_ms),
                ago(*last_event_ms)
            );
            if let Some(progress) = progress {
                text.push_str(&format!(": {progress}"));
            }
            text
        }
        RunState::Ended { outcome, why, .. } => {
            let name = crate::queue::outcome_name(Some(outcome)).replace('_', " ");
            format!("it is over ({name}): {why}")
        }
        RunState::Lost { why, unreadable: false } => format!("it was cut off: {why}"),
        RunState::Lost { why, unreadable: true } => format!("how it ended is not known: {why}"),
    }
}

fn span(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use run_protocol::RunOutcome;

    use super::*;

    #[test]
    fn every_state_has_a_sentence() {
        let no_daemon = QueueWord::NoDaemon;
        let told = |state: &RunState| why(state, &no_daemon, 100_000);
        assert_eq!(
            told(&RunState::Running {
                since_ms: 10_000,
                last_event_ms: 97_000,
                progress: Some("half".to_owned())
            }),
            "it has been running for 90 s, and was last heard of 3 s ago: half"
        );
        let ended = RunState::Ended {
            outcome: RunOutcome::DependencyFailed,
            why: "run x did not".to_owned(),
            exit_code: None,
            duration_ms: 1,
        };
        assert_eq!(told(&ended), "it is over (dependency failed): run x did not");
        let queued = RunState::Queued { since_ms: 1 };
        assert!(told(&queued).contains("caretaker daemon start"));
        let paused = QueueWord::Waits(Waiting::Resumption);
        assert_eq!(why(&queued, &paused, 0), "it is queued: the queue is paused");
        for state in [
            RunState::Created,
            RunState::Starting,
            RunState::Waiting { reason: "for it".to_owned() },
            RunState::Lost { why: "gone".to_owned(), unreadable: false },
            RunState::Lost { why: "gone".to_owned(), unreadable: true },
        ] {
            assert!(!told(&state).is_empty());
        }
    }
}
