//! Stores of the SDK: ids that are the caller's choice, directories that the SDK renames, and what its runs say.

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::sdk::{Agent, Event, Generation, Run, events, state_root, write_database};
use store_fixtures::Closing;

use crate::stage::Stage;

fn projects(stage: &Stage) -> PathBuf {
    stage.home().join(".cursor/projects")
}

/// Writes one agent into the store of its workspace, and returns where that is.
fn write(stage: &Stage, agent: &Agent) -> PathBuf {
    let store = state_root(&projects(stage), &agent.workspace);
    write_database(&store, Generation::September2026, &[agent.clone()], Closing::Clean);
    store
}

fn json_of(stage: &Stage, args: &[&str]) -> Value {
    let output = stage.output(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shown(stage: &Stage, id: &str) -> String {
    String::from_utf8(stage.output(&["sessions", "show", id]).stdout).unwrap()
}

#[test]
fn show_tells_how_every_turn_of_the_sdk_came_out() {
    let stage = Stage::new();
    let shell = |id: &str, code: i64| {
        let value =
            json!({"exitCode": code, "signal": "", "stdout": "", "stderr": "", "executionTime": 5});
        events::completed(id, "shell", json!({"command": format!("exit {code}")}), value)
    };
    let cancelled = Run {
        model: Some("model-two".to_owned()),
        ..Run::new(
            "run-2",
            vec![events::text("I begin"), events::status("CANCELLED", Some("stopped by ada"))],
        )
        .ended("CANCELLED")
    };
    let failed = Run {
        error: Some("[rate_limited] Too many requests".to_owned()),
        ..Run::new("run-3", vec![events::user("third prompt")]).ended("ERROR")
    };
    let silent = Run::new("run-4", Vec::new()).ended("CANCELLED");
    let mut odd = Run::new(
        "run-5",
        vec![events::user("fifth prompt"), events::status("RUNNING", Some("waiting for capacity"))],
    );
    odd.events.push(Event {
        event_type: "mood_event".to_owned(),
        ..Event::payload(json!({"mood": "moodword"}))
    });
    let agent = Agent::new("helper", "/srv/one")
        .with(Run::new("run-1", vec![events::user("first prompt"), shell("1", 0), shell("2", 3)]))
        .with(cancelled)
        .with(failed)
        .with(silent)
        .with(odd);
    write(&stage, &agent);
    let text = shown(&stage, "helper");
    let place = |piece: &str| text.find(piece).unwrap_or_else(|| panic!("no {piece:?} in {text}"));
    // A turn without a prompt has a heading of its own, with its own model.
    assert!(place("gpt-5.5") < place("model-two"), "{text}");
    assert!(place("model-two") < place("I begin"), "{text}");
    assert!(text.contains("✓ shell exit 0") && text.contains("✗ shell exit 3"), "{text}");
    assert!(text.contains("exit code 3") && !text.contains("exit code 0"), "{text}");
    // Each turn says how it came out, where it stands.
    assert!(place("I begin") < place("turn 2 was cancelled: stopped by ada"), "{text}");
    assert!(place("turn 2 was cancelled") < place("third prompt"), "{text}");
    assert!(
        place("third prompt") < place("turn 3 failed: Too many requests (rate_limited)"),
        "{text}"
    );
    assert!(place("turn 3 failed") < place("turn 4 was cancelled"), "{text}");
    assert!(place("turn 4 was cancelled") < place("fifth prompt"), "{text}");
    assert!(text.contains("[status RUNNING: waiting for capacity]"), "{text}");
    assert!(text.contains("[mood_event: "), "{text}");
    let json = json_of(&stage, &["sessions", "show", "helper", "--json"]);
    let turn = &json["turns"][2];
    assert_eq!(
        (&turn["error"], &turn["error_code"]),
        (&json!("Too many requests"), &json!("rate_limited"))
    );
}
