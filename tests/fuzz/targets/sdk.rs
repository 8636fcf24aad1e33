//! SDK stores of every generation with changed rows, and the SDK's line files.

#![no_main]

mod changed_copy;
mod every_reading;

use std::path::PathBuf;
use std::sync::OnceLock;

use changed_copy::{Change, change_file, change_rows, copy};
use libfuzzer_sys::fuzz_target;
use store_fixtures::Closing;
use store_fixtures::sdk::{Generation, chat_path, planted_agent, state_root, write_database, write_lines};
use tempfile::TempDir;

const AGENT: &str = "agent-5d5d5d5d-0000-4000-8000-000000000001";

fn templates() -> &'static [(TempDir, PathBuf)] {
    static TEMPLATES: OnceLock<Vec<(TempDir, PathBuf)>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let home = |generation: Generation| {
            let home = tempfile::tempdir().expect("a directory");
            let agent = planted_agent(AGENT, &mut |field| format!("planted {field}"));
            let store = state_root(&home.path().join("projects"), "/srv");
            write_database(&store, generation, std::slice::from_ref(&agent), Closing::Clean);
            write_lines(&home.path().join("lines"), &[agent]);
            let store = store.strip_prefix(home.path()).expect("inside").to_owned();
            (home, store)
        };
        Generation::ALL.into_iter().map(home).collect()
    })
}

fuzz_target!(|input: (u8, Vec<Change>, Vec<Change>, Vec<Change>)| {
    let (which, rows, blobs, lines) = input;
    let templates = templates();
    let (template, store) = &templates[usize::from(which) % templates.len()];
    let home = copy(template.path());
    let store = home.path().join(store);
    let mut columns = vec![("run_events", "payload_json"), ("run_events", "payload_json"), ("run_events", "created_at")];
    columns.extend(["metadata_json", "status", "created_at", "name", "workspace_ref"].map(|name| ("agents", name)));
    columns.extend(
        ["status", "turn_number", "model_params_json", "latest_checkpoint_ref_json", "started_at"].map(|name| ("runs", name)),
    );
    change_rows(&store.join("index.db"), &columns, &rows[..rows.len().min(8)]);
    let chat = chat_path(&store, AGENT);
    if chat.exists() {
        change_rows(&chat, &[("blobs", "data"), ("meta", "value")], &blobs[..blobs.len().min(4)]);
    }
    for (number, name) in ["run_events.ndjson", "runs.ndjson", "agents.ndjson", "checkpoints.ndjson"].iter().enumerate() {
        let path = home.path().join("lines").join(name);
        let meant: Vec<Change> =
            lines.iter().filter(|change| usize::from(change.0) % 4 == number).take(4).cloned().collect();
        if path.exists() {
            change_file(&path, &meant);
        }
    }
    every_reading::read_everything(home.path());
});
