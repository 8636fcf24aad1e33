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
        "running for 90 s, last event 3 s ago: half"
    );
    let ended = RunState::Ended {
        outcome: RunOutcome::DependencyFailed,
        why: "run x did not".to_owned(),
        exit_code: None,
        duration_ms: 1,
    };
    assert_eq!(told(&ended), "ended (dependency failed): run x did not");
    let queued = RunState::Queued { since_ms: 1 };
    assert!(told(&queued).contains("caretaker daemon start"));
    let paused = QueueWord::Waits(Waiting::Resumption);
    assert_eq!(why(&queued, &paused, 0), "queued: the queue is paused");
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
