use pretty_assertions::assert_eq;
use store_fixtures::open_writer;
use store_fixtures::sdk::{Agent, Generation, write_database};

use super::*;

#[test]
fn a_value_that_is_too_large_is_reported_and_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let run = store_fixtures::sdk::Run::new("run-1", vec![serde_json::json!({"type": "done"})]);
    let agents = [Agent::new("agent-1", "/w").with(run)];
    write_database(directory.path(), Generation::July2026, &agents, store_fixtures::Closing::Clean);
    let path = directory.path().join("index.db");
    let writer = open_writer(&path);
    let n_bytes = MAX_VALUE_BYTES + 1;
    writer.execute("UPDATE runs SET result = zeroblob(?1)", [n_bytes]).unwrap();
    writer.execute("UPDATE run_events SET payload_json = zeroblob(?1)", [n_bytes]).unwrap();
    writer.close().unwrap();
    let mut damage = Vec::new();
    let (runs, events) = with_index(&path, |index| {
        Ok((index.runs(Some("agent-1"), Columns::Known, &mut damage)?, index.events("run-1")?))
    })
    .unwrap();
    assert_eq!(damage, [Damage::new("runs run-1", "its result is too large to read")]);
    assert_eq!(runs[0].result, None);
    assert_eq!(events[0].payload, Payload::TooLarge);
    let mut damage = Vec::new();
    with_index(&path, |index| {
        index.visit_values(Table::RunEvents, "run_id", "run-1", &mut damage, &mut |values| {
            assert!(values.iter().all(|(name, _)| *name != "payload_json"));
            ControlFlow::Continue(())
        })
    })
    .unwrap();
    assert_eq!(
        damage,
        [Damage::new("run_events.payload_json of run-1", "it is too large to search")]
    );
}

#[test]
fn runs_of_events_are_listed_by_key_alone() {
    let directory = tempfile::tempdir().unwrap();
    write_database(directory.path(), Generation::July2026, &[], store_fixtures::Closing::Clean);
    let path = directory.path().join("index.db");
    let writer = open_writer(&path);
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, created_at) VALUES (?1, ?2, ?2, 'x', 'y')";
    for run in ["b", "a", "ü", ""] {
        for seq in 0..3 {
            writer.execute(sql, (run, seq)).unwrap();
        }
    }
    writer.execute(sql, (b"\xff\xfe".as_slice(), 0)).unwrap();
    writer.close().unwrap();
    let runs = with_index(&path, IndexDb::runs_of_events).unwrap();
    assert_eq!(runs, ["a", "b", "ü"]);
}
