//! Arbitrary payloads in the database of the SDK.

#![no_main]

mod every_reading;

use libfuzzer_sys::fuzz_target;
use store_fixtures::sdk::{Agent, Generation, Run, state_root, write_database};
use store_fixtures::{Closing, open_writer};

fuzz_target!(|input: Vec<Vec<u8>>| {
    let home = tempfile::tempdir().expect("a directory");
    let run = Run::new("run-1", Vec::new());
    let agent = Agent::new("agent-1", "/srv").with(run);
    let store = state_root(&home.path().join("projects"), "/srv");
    write_database(&store, Generation::September2026, &[agent], Closing::Clean);
    let writer = open_writer(&store.join("index.db"));
    for (number, payload) in input.iter().take(8).enumerate() {
        writer
            .execute(
                "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) VALUES ('run-1', ?1, ?1, 'run_stream_event', ?2, 'x')",
                (number as i64 + 1000, payload),
            )
            .expect("an event");
    }
    writer.close().expect("closed");
    every_reading::read_everything(home.path());
});
