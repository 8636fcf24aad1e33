use pretty_assertions::assert_eq;
use run_protocol::{Bound, QueueTerms, RunEvent, RunId, RunOutcome, RunSpec, Widening};

use super::*;
use crate::test_run::{TestState, spec};
use crate::{EventNumber, RunOverview, RunState, WriterPresence};

fn queue(state: &TestState) -> RunDirectory {
    let terms = QueueTerms { priority: 3, ..QueueTerms::default() };
    let spec = RunSpec { queue: Some(terms), ..spec(RunId::generate()) };
    RunDirectory::create(&state.state, &spec, b"later").unwrap()
}

fn state_of(run: &RunDirectory) -> RunState {
    RunOverview::read(run).unwrap().state
}

#[test]
fn a_run_that_was_widened_waits_in_the_queue_too() {
    let state = TestState::new();
    let (from, to) = ("none".to_owned(), "host".to_owned());
    let spec = RunSpec {
        queue: Some(QueueTerms::default()),
        widened: vec![Widening { bound: Bound::Network, from, to }],
        ..spec(RunId::generate())
    };
    let run = RunDirectory::create(&state.state, &spec, b"later").unwrap();
    assert!(run.is_queued().unwrap());
    let journal = std::fs::read_to_string(run.journal_path()).unwrap();
    assert!(journal.contains("\"seq\":2") && journal.contains("\"kind\":\"widened\""), "{journal}");
    assert_eq!(run.spec().unwrap(), spec);
}

#[test]
fn a_queued_run_is_expected_to_begin_however_old_it_is() {
    let state = TestState::new();
    let run = queue(&state);
    assert!(run.is_queued().unwrap());
    assert_eq!(run.writer().unwrap(), WriterPresence::NotYet);
    assert!(matches!(state_of(&run), RunState::Queued { .. }));
    // A shim took the lock and died before it began the run: the run is still waiting.
    drop(run.lock().unwrap());
    assert_eq!(run.writer().unwrap(), WriterPresence::NotYet);
    assert!(matches!(state_of(&run), RunState::Queued { .. }));
}

#[test]
fn the_shim_of_a_queued_run_continues_the_first_epoch_and_records_its_attempt() {
    let state = TestState::new();
    let run = queue(&state);
    let lock = run.lock().unwrap();
    let mut writer = JournalWriter::open(&run, &lock).unwrap();
    let number = writer.event(1, &RunEvent::Attempt { number: 1 }, Redaction::Untouched);
    assert_eq!(number, EventNumber { epoch: 1, seq: 3 });
    writer.flush().unwrap();
    assert!(!run.is_queued().unwrap());
    assert_eq!(state_of(&run), RunState::Starting);
    drop((writer, lock));
    assert!(matches!(state_of(&run), RunState::Lost { .. }), "no shim starts it again");
    assert_eq!(run.end_queued(RunOutcome::Cancelled, String::new()).unwrap(), EndQueued::NotQueued);
}

#[test]
fn a_queued_run_can_be_ended_once_and_only_while_nobody_supervises_it() {
    let state = TestState::new();
    let run = queue(&state);
    let lock = run.lock().unwrap();
    let end = || run.end_queued(RunOutcome::Cancelled, "by you".to_owned()).unwrap();
    assert_eq!(end(), EndQueued::NotQueued);
    drop(lock);
    assert_eq!(end(), EndQueued::Ended);
    assert_eq!(end(), EndQueued::NotQueued);
    match state_of(&run) {
        RunState::Ended { outcome, why, .. } => {
            assert_eq!((outcome, why.as_str()), (RunOutcome::Cancelled, "by you"));
        }
        state => panic!("{state:?}"),
    }
}

#[test]
fn a_run_that_was_started_at_once_is_not_queued() {
    let state = TestState::new();
    let run = state.create();
    assert!(!run.is_queued().unwrap());
    assert_eq!(run.end_queued(RunOutcome::Cancelled, String::new()).unwrap(), EndQueued::NotQueued);
    assert_eq!(state_of(&run), RunState::Created);
}
