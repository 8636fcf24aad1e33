//! The SDK's stores: ids chosen by the caller, directories that the SDK renames, and the messages of its runs.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::sdk::{Agent, Event, Generation, Run, events, state_root, write_database};
use store_fixtures::{Closing, open_writer};

use crate::sessions::every_store::Tail;
use crate::stage::Stage;

fn projects(stage: &Stage) -> PathBuf {
    stage.home().join(".cursor/projects")
}

/// Writes one agent into its workspace's store, and returns the store's path.
fn write(stage: &Stage, agent: &Agent) -> PathBuf {
    let store = state_root(&projects(stage), &agent.workspace);
    write_database(&store, Generation::September2026, std::slice::from_ref(agent), Closing::Clean);
    store
}

fn one_turn(id: &str, workspace: &str, run: &str, word: &str) -> Agent {
    let messages = vec![events::user(&format!("ask {word}")), events::text(&format!("say {word}"))];
    Agent::new(id, workspace).with(Run::new(run, messages))
}

fn shown(stage: &Stage, id: &str) -> String {
    String::from_utf8(stage.output(&["sessions", "show", id]).stdout).unwrap()
}

/// Returns `(id, workspace)` of all listed conversations.
fn listed(stage: &Stage) -> Vec<(String, String)> {
    let list = stage.json(&["sessions", "ls", "--all", "--json"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut listed: Vec<(String, String)> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|head| (text(&head["id"]), text(&head["workspace"]["path"])))
        .collect();
    listed.sort();
    listed
}

#[test]
fn the_same_agent_id_in_two_workspaces_is_two_conversations() {
    let stage = Stage::new();
    write(&stage, &one_turn("helper", "/srv/one", "run-a", "alphaword"));
    let later = Agent { created_ms: 1_790_000_900_000, ..Agent::new("helper", "/srv/two") };
    let messages = vec![events::user("ask betaword"), events::text("say betaword")];
    let store = write(&stage, &later.with(Run::new("run-b", messages)));
    let directory = store.file_name().unwrap().to_str().unwrap();
    let other = format!("helper@{}", &directory[..8]);
    let expected = [("helper", "/srv/one"), (other.as_str(), "/srv/two")];
    assert_eq!(listed(&stage), expected.map(|(id, at)| (id.to_owned(), at.to_owned())));
    for (id, own, foreign) in
        [("helper", "alphaword", "betaword"), (other.as_str(), "betaword", "alphaword")]
    {
        let text = shown(&stage, id);
        assert!(text.contains(own) && !text.contains(foreign), "{id}: {text}");
        let found = stage.output(&["sessions", "search", own, "--json"]);
        let found = String::from_utf8(found.stdout).unwrap();
        assert!(found.contains(&format!("\"{id}\"")), "{own}: {found}");
    }
    // The directory also identifies the conversation with the bare id.
    let first = state_root(&projects(&stage), "/srv/one");
    let first = format!("helper@{}", &first.file_name().unwrap().to_str().unwrap()[..8]);
    assert!(shown(&stage, &first).contains("alphaword"));
}

#[test]
fn a_copy_of_a_store_is_the_same_conversation_until_the_two_differ() {
    let stage = Stage::new();
    let store = write(&stage, &one_turn("helper", "/srv/one", "run-a", "alphaword"));
    let copy = store.with_file_name("f".repeat(64));
    fs::create_dir(&copy).unwrap();
    fs::copy(store.join("index.db"), copy.join("index.db")).unwrap();
    assert_eq!(listed(&stage).len(), 1, "{:?}", listed(&stage));
    // An old SDK continues in the old directory, and a new SDK in the new one.
    let more = |path: &Path, run: &str| {
        let index = open_writer(&path.join("index.db"));
        index
            .execute(
                "INSERT INTO runs (run_id, agent_id, turn_number, status, created_at, updated_at, result) \
                 VALUES (?1, 'helper', 2, 'FINISHED', ?2, ?2, ?1)",
                [run, "2026-10-01T00:00:00.000Z"],
            )
            .unwrap();
        index.close().unwrap();
    };
    more(&copy, "run-newword");
    assert_eq!(listed(&stage).len(), 1, "one id is a prefix of the other");
    assert!(shown(&stage, "helper").contains("run-newword"));
    more(&store, "run-oldword");
    let ids: Vec<String> = listed(&stage).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    let texts: Vec<String> = ids.iter().map(|id| shown(&stage, id)).collect();
    for word in ["run-newword", "run-oldword"] {
        assert_eq!(texts.iter().filter(|text| text.contains(word)).count(), 1, "{word}: {texts:?}");
    }
}

fn add_thought(store: &Path, agent: &str, run: &str, seq: u32, word: &str) {
    let index = open_writer(&store.join("index.db"));
    let message = json!({"type": "thinking", "agent_id": agent, "run_id": run, "text": word});
    let payload = json!({"schemaVersion": 1, "type": "sdk_message", "agentId": agent, "runId": run,
        "message": message});
    index
        .execute(
            "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) \
             VALUES (?1, ?2, ?2, 'run_stream_event', ?3, '2026-07-01T00:00:00.000Z')",
            rusqlite::params![run, seq, payload.to_string()],
        )
        .unwrap();
    index.close().unwrap();
}

/// Starts a follower of all stores, and waits until it has shown a message, so that it is ready.
fn follower(stage: &Stage, store: &Path, agent: &str) -> Tail {
    let tail = Tail::start(stage, "--all");
    for n in 1..60 {
        add_thought(store, agent, "run-a", 100 + n, &format!("ready{n}word"));
        if tail.shows_within(&format!("ready{n}word"), std::time::Duration::from_secs(1)) {
            return tail;
        }
    }
    panic!("nothing was shown");
}

#[test]
fn a_store_in_a_new_project_is_followed() {
    let stage = Stage::new();
    let first = write(&stage, &one_turn("first", "/srv/one", "run-a", "oldword"));
    let tail = follower(&stage, &first, "first");
    // Write in the SDK's order: first the directories, then an empty database, then its rows.
    let agent = one_turn("second", "/srv/two", "run-b", "newprojectword");
    let store = state_root(&projects(&stage), "/srv/two");
    fs::create_dir_all(&store).unwrap();
    write_database(&store, Generation::September2026, &[agent], Closing::Killed);
    tail.wait_for("newprojectword");
    add_thought(&store, "second", "run-b", 900, "thoughtword");
    tail.wait_for("thoughtword");
}

#[test]
fn followers_continue_when_the_sdk_renames_its_directory() {
    let stage = Stage::new();
    let store = write(&stage, &one_turn("helper", "/srv/one", "run-a", "oldword"));
    let all = follower(&stage, &store, "helper");
    let one = Tail::start(&stage, "helper");
    one.wait_for("oldword");
    add_thought(&store, "helper", "run-a", 200, "beforeword");
    one.wait_for("beforeword");
    all.wait_for("beforeword");
    let renamed = store.with_file_name("b".repeat(64));
    fs::rename(&store, &renamed).unwrap();
    for (seq, word) in [(300, "afterword"), (301, "againword")] {
        add_thought(&renamed, "helper", "run-a", seq, word);
        for tail in [&one, &all] {
            tail.wait_for(word);
            let rest = tail.rest();
            assert!(!rest.iter().any(|line| line.contains(word)), "{word} arrived twice: {rest:?}");
        }
    }
}

#[test]
fn show_prints_the_outcome_of_every_turn_of_the_sdk() {
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
    // A turn without a prompt has its own heading, with its own model.
    assert!(place("GPT-5.5") < place("model-two"), "{text}");
    assert!(place("model-two") < place("I begin"), "{text}");
    assert!(text.contains("✓ shell exit 0") && text.contains("✗ shell exit 3"), "{text}");
    assert!(text.contains("exit code 3") && !text.contains("exit code 0"), "{text}");
    // Each turn reports its outcome in the right place.
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
    let json = stage.json(&["sessions", "show", "helper", "--json"]);
    let turn = &json["turns"][2];
    assert_eq!(
        (&turn["error"], &turn["error_code"]),
        (&json!("Too many requests"), &json!("rate_limited"))
    );
}
