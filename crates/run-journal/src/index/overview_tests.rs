use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use pretty_assertions::assert_eq;
use run_protocol::{Bound, Resumable, RunSpec, Widening};

use super::*;
use crate::Redaction;
use crate::journal::line_encoding::push_event;
use crate::test_run::{TestState, add_json, ended, first, spec, writer};

fn overview(directory: &RunDirectory) -> RunOverview {
    RunOverview::read(directory).unwrap()
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        session: "s".to_owned(),
        root: Some("ab".to_owned()),
        messages: 4,
        turns: 1,
        pending: Vec::new(),
        resumable: Resumable::Yes,
    }
}

fn ended_state() -> RunState {
    RunState::Ended {
        outcome: RunOutcome::Succeeded,
        why: "the agent gave a result".to_owned(),
        exit_code: Some(0),
        duration_ms: 1234,
    }
}

#[test]
fn an_overview_shows_a_run_from_its_creation() {
    let test = TestState::new();
    let directory = test.create_named("fixer");
    let spec = directory.spec().unwrap();
    let expected = RunOverview {
        run: spec.run,
        created_ms: spec.created_ms,
        name: Some("fixer".to_owned()),
        labels: spec.labels,
        session: spec.session.to_string(),
        workspace: BytesPath::from(&spec.workspace),
        profile: "default".to_owned(),
        agent: spec.agent.program,
        agent_version: spec.agent.version,
        model: spec.model,
        prompt_start: "fix the tests".to_owned(),
        prompt_length: 13,
        retry_of: None,
        group: None,
        worktree: None,
        lineage: None,
        needs_human: None,
        state: RunState::Created,
        last_event: Some(first(1)),
        last_event_ms: spec.created_ms,
        checkpoint: None,
        reported: None,
        spent: None,
        journal_bytes: fs::metadata(directory.journal_path()).unwrap().len(),
    };
    assert_eq!(overview(&directory), expected);

    // Without a readable spec, only the labels are missing.
    fs::write(directory.spec_path(), "{\"warp\":9}").unwrap();
    assert_eq!(overview(&directory), RunOverview { labels: BTreeMap::new(), ..expected });
}

#[test]
fn a_run_is_followed_from_its_start_to_its_end() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut writer) = writer(&directory);
    assert_eq!(overview(&directory).state, RunState::Starting);

    let mut after = |at: u64, event: RunEvent| {
        writer.event(at, &event, Redaction::Untouched);
        writer.flush().unwrap();
        overview(&directory)
    };
    let waiting = after(1, RunEvent::Waiting { reason: "the session is held".to_owned() });
    assert_eq!(waiting.state, RunState::Waiting { reason: "the session is held".to_owned() });
    let ready = RunEvent::SandboxReady {
        profile: "default".to_owned(),
        sandbox_pid: 1,
        mounts: 1,
        network: None,
        limits: None,
        caches: Vec::new(),
        warnings: Vec::new(),
    };
    assert_eq!(after(2, ready).state, RunState::Starting);
    let running = |last_event_ms, progress: Option<&str>| RunState::Running {
        since_ms: 3,
        last_event_ms,
        progress: progress.map(str::to_owned),
    };
    assert_eq!(after(3, RunEvent::Released).state, running(3, None));
    let progress = RunEvent::Progress { text: "half way".to_owned(), percent: None };
    assert_eq!(after(4, progress).state, running(4, Some("half way")));
    let reported = RunEvent::Reported {
        status: ReportedStatus::Blocked,
        summary: "needs a key".to_owned(),
        artifacts: Vec::new(),
    };
    let reported = after(5, reported).reported;
    let expected = Reported { status: ReportedStatus::Blocked, summary: "needs a key".to_owned() };
    assert_eq!(reported, Some(expected));
    assert_eq!(after(6, RunEvent::Checkpoint(checkpoint())).checkpoint, Some(checkpoint()));
    let over = after(7, ended());
    assert_eq!(
        (over.state, over.last_event, over.last_event_ms),
        (ended_state(), Some(first(8)), 7)
    );

    writer.finish().unwrap();
    drop(lock);
    assert_eq!(overview(&directory).state, ended_state());
}

#[test]
fn a_run_whose_supervisor_died_is_lost() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut one) = writer(&directory);
    one.event(3, &RunEvent::Released, Redaction::Untouched);
    one.finish().unwrap();
    drop(lock);
    let lost = overview(&directory).state;
    assert_eq!(lost, RunState::Lost { why: "its supervisor died".to_owned(), unreadable: false });
    assert_eq!(lost.outcome(), Some(RunOutcome::Unknown { why: NoResult::Lost }));
    assert!(!lost.is_unfinished());

    // A new writer begins a new epoch.
    let (_lock, _two) = writer(&directory);
    assert_eq!(overview(&directory).state, RunState::Starting);
}

#[test]
fn a_run_whose_supervisor_never_started_is_lost_for_that_reason() {
    let never =
        RunState::Lost { why: "its supervisor never started".to_owned(), unreadable: false };
    let test = TestState::new();
    let old = test.create_old();
    assert_eq!(overview(&old).state, never);

    // The creation of a widened run writes a second event.
    let run = "0191d0f6-0000-7000-8000-0123456789ac".parse().unwrap();
    let widened = Widening { bound: Bound::Network, from: "none".into(), to: "host".into() };
    let spec = RunSpec { widened: vec![widened], ..spec(run) };
    let widened = RunDirectory::create(&test.state, &spec, b"go").unwrap();
    assert_eq!(overview(&widened).state, never);
}

#[test]
fn a_run_that_was_cut_short_by_a_restart_says_so() {
    let test = TestState::new();
    let directory = test.create();
    drop(directory.lock().unwrap());
    let text = fs::read_to_string(directory.journal_path()).unwrap();
    let boot = boot_id().expect("this kernel has a boot id");
    fs::write(directory.journal_path(), text.replace(&boot, "another-start")).unwrap();
    let expected = RunState::Lost {
        why: "the machine was restarted while it ran".to_owned(),
        unreadable: false,
    };
    assert_eq!(overview(&directory).state, expected);
}

#[test]
fn damaged_files_make_a_run_without_a_writer_lost_and_nothing_worse() {
    let test = TestState::new();
    let directory = test.create();
    drop(directory.lock().unwrap());
    fs::remove_file(directory.journal_path()).unwrap();
    let lost = overview(&directory);
    assert!(!lost.state.is_interrupted(), "it may have succeeded");
    assert!(matches!(
        lost.state,
        RunState::Lost { why, unreadable: true } if why.starts_with("its files cannot be read")
    ));
    assert_eq!(lost.session, spec(directory.run_id()).session.to_string());

    for damage in [vec![0xff; 100_000], Vec::new()] {
        fs::write(directory.journal_path(), damage).unwrap();
        let lost = overview(&directory).state;
        assert!(matches!(lost, RunState::Lost { unreadable: true, .. }), "{lost:?}");
        assert!(!lost.is_interrupted(), "it may have succeeded");
    }
}

#[test]
fn a_run_with_a_live_writer_is_never_lost() {
    let test = TestState::new();
    let directory = test.create();
    let _lock = directory.lock().unwrap();
    fs::remove_file(directory.journal_path()).unwrap();
    assert!(matches!(overview(&directory).state, RunState::Running { .. }));

    fs::write(directory.journal_path(), "{\"journal\":99}\n").unwrap();
    assert!(matches!(overview(&directory).state, RunState::Running { .. }));

    fs::write(directory.journal_path(), [0xff; 100_000]).unwrap();
    fs::write(directory.spec_path(), "").unwrap();
    assert_eq!(overview(&directory).state, RunState::Starting);
}

#[test]
fn an_index_row_of_an_older_build_says_that_the_record_was_read() {
    let old = r#"{"state":"lost","why":"its supervisor died"}"#;
    let lost: RunState = serde_json::from_str(old).unwrap();
    assert!(lost.is_interrupted());
    assert_eq!(serde_json::to_string(&lost).unwrap(), old);
}

#[test]
fn a_run_that_was_removed_is_an_error() {
    let test = TestState::new();
    let directory = test.create();
    fs::remove_dir_all(directory.path()).unwrap();
    assert!(RunOverview::read(&directory).is_err());
}

#[test]
fn the_head_and_tail_of_a_long_journal_are_enough_for_its_overview() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    writer.event(3, &RunEvent::Released, Redaction::Untouched);
    let line = format!("\"{}\"", "x".repeat(100_000));
    for _ in 0..30 {
        add_json(&mut writer, &line);
    }
    writer.flush().unwrap();
    let running = RunState::Running { since_ms: 3, last_event_ms: 7, progress: None };
    let seen = overview(&directory);
    assert_eq!((seen.state, seen.last_event), (running.clone(), Some(first(32))));

    // One line longer than the whole tail.
    add_json(&mut writer, &format!("\"{}\"", "x".repeat(3 * TAIL_BYTES as usize)));
    writer.flush().unwrap();
    let seen = overview(&directory);
    assert_eq!((seen.state, seen.last_event), (running, Some(first(33))));

    writer.event(8, &ended(), Redaction::Untouched);
    writer.flush().unwrap();
    assert_eq!(overview(&directory).state, ended_state());
}

#[test]
fn the_middle_of_a_journal_is_not_read() {
    // The journal has a hole of a tebibyte, which would take minutes to read.
    let test = TestState::new();
    let directory = test.create();
    drop(directory.lock().unwrap());
    let mut end = b"\n".to_vec();
    push_event(&mut end, first(900), 9, &ended(), crate::Redaction::Untouched);
    let file = OpenOptions::new().write(true).open(directory.journal_path()).unwrap();
    file.write_all_at(&end, 1 << 40).unwrap();
    let seen = overview(&directory);
    assert_eq!((seen.state, seen.last_event), (ended_state(), Some(first(900))));
    assert_eq!(seen.prompt_start, "fix the tests");
}
