use format_fixtures::{Layout, check};

use super::*;

fn place() -> (tempfile::TempDir, StateRoot) {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().join("state"));
    (directory, state)
}

#[test]
fn a_record_is_read_back_and_a_damaged_one_reads_as_empty_and_is_never_overwritten() {
    let (_directory, state) = place();
    assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
    let budget = Some(Budget { tokens: Some(5), ..Budget::default() });
    let stopped = GroupRecord::update(&state, "g", |record| record.stopped_ms = Some(7));
    assert_eq!(stopped.unwrap().stopped_ms, Some(7));
    let record = GroupRecord::update(&state, "g", |record| record.budget = budget).unwrap();
    assert_eq!((record.stopped_ms, record.budget), (Some(7), budget));
    assert_eq!(GroupRecord::read(&state, "g"), record);
    let names = fs::read_dir(state.groups()).unwrap();
    assert_eq!(names.count(), 2, "the record and the lock");
    fs::write(state.groups().join("g.json"), b"{").unwrap();
    assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
    assert!(GroupRecord::update(&state, "g", |record| record.budget = None).is_err());
    assert_eq!(fs::read(state.groups().join("g.json")).unwrap(), b"{");
}

#[test]
fn a_removed_run_is_counted_once_even_if_the_removal_is_killed() {
    let (_directory, state) = place();
    let (first, second) = (RunId::generate(), RunId::generate());
    let spend = Spend { tool_calls: Some(3), time_ms: None, tokens: Some(10) };
    fs::create_dir_all(state.run_dir(&first)).unwrap();
    // A process counts the run and is killed, so the run still exists; the next process counts it again.
    for _ in 0..2 {
        let succeeded = Some(&RunOutcome::Succeeded);
        GroupRecord::count_gone(&state, "g", first, spend, succeeded).unwrap();
    }
    let record = GroupRecord::read(&state, "g");
    assert!(record.has_counted(first));
    assert_eq!(record.gone.as_ref().unwrap().spent.tool_calls.known, 3);
    fs::remove_dir_all(state.run_dir(&first)).unwrap();
    let failed = Some(&RunOutcome::AgentError);
    GroupRecord::count_gone(&state, "g", second, Spend::default(), failed).unwrap();
    let gone = GroupRecord::read(&state, "g").gone.unwrap();
    assert_eq!((gone.n_runs, gone.counted), (2, vec![second]));
    assert_eq!((gone.spent.tokens.known, gone.spent.tokens.n_unknown), (10, 1));
    assert_eq!(gone.spent.tokens.each_unknown(), Some(10));
    assert_eq!((gone.spent.time_ms.known, gone.spent.time_ms.n_unknown), (0, 2));
    assert_eq!((gone.n_succeeded, gone.n_failed), (1, 1));
    assert_eq!(gone.since_ms, Some(first.created_ms()));
}

#[test]
fn group_records_are_read_in_full() {
    check::<GroupRecord>(&["v1/state/groups/*.json"], Layout::Compact);
}
