//! The agent's memory from turn to turn.

use std::fs;

use pretty_assertions::assert_eq;
use uuid::Uuid;

use crate::sandbox::{FORCED, Sandbox, finish, name, prompt};

const NOTHING: &str = "I remember nothing before this.";

#[test]
fn a_resumed_session_remembers_every_prompt_word_for_word() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    let first = format!("My name is Ada; mind the \"quotes\" & ünïcode.\n{}", prompt("say hello"));
    let finished = finish(sandbox.agent(&arguments), &first);
    assert_eq!(finished.session_id(), id);
    let second = prompt("recall");
    assert_eq!(sandbox.play(&arguments, "recall").answer(), format!("You said: {first}"));
    let third = sandbox.play(&arguments, "recall").answer();
    assert_eq!(third, format!("You said: {first}\nYou said: {second}"));
}

#[test]
fn the_same_id_in_another_directory_remembers_nothing() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    sandbox.play(&arguments, "say hello");
    let other = sandbox.home().join("other");
    fs::create_dir(&other).unwrap();
    let mut elsewhere = sandbox.agent(&arguments);
    elsewhere.current_dir(&other);
    let finished = finish(elsewhere, &prompt("recall"));
    assert_eq!((finished.answer(), finished.session_id()), (NOTHING.to_owned(), id.clone()));

    let workspace = sandbox.workspace();
    let named = [&arguments[..], &["--workspace", workspace.to_str().unwrap()]].concat();
    let mut from_elsewhere = sandbox.agent(&named);
    from_elsewhere.current_dir(&other);
    let finished = finish(from_elsewhere, &prompt("recall"));
    assert!(finished.answer().starts_with("You said: "), "--workspace decides");
    assert_eq!(finished.events()[0]["cwd"], serde_json::json!(workspace));
}

#[test]
fn another_config_root_remembers_nothing_either() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    sandbox.play(&arguments, "say hello");
    let mut moved = sandbox.agent(&arguments);
    moved.env("CURSOR_CONFIG_DIR", sandbox.home().join("elsewhere"));
    assert_eq!(finish(moved, &prompt("recall")).answer(), NOTHING);
}

#[test]
fn the_latest_session_is_continued_and_a_number_selects_an_older_one() {
    let sandbox = Sandbox::new();
    let fresh = sandbox.play(&[FORCED, &["--continue"]].concat(), "recall");
    assert_eq!(fresh.answer(), NOTHING);
    let older = fresh.session_id();
    let newer = sandbox.play(FORCED, "say I am newer").session_id();
    for (flags, expected) in [
        (&["--continue"][..], &newer),
        (&["--resume"], &newer),
        (&["--resume=-1"], &newer),
        (&["--resume=-2"], &older),
    ] {
        let finished = sandbox.play(&[FORCED, flags].concat(), "say ok");
        assert_eq!(finished.session_id(), *expected, "{flags:?}");
    }
}

#[test]
fn a_compacted_session_still_knows_the_prompts() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    let finished = finish(
        sandbox.agent(&arguments),
        &format!("Remember the heron.\n{}", prompt("shell true\ncompact 1ms\nsay ok")),
    );
    assert_eq!(finished.answer(), "ok");
    assert!(sandbox.play(&arguments, "recall").answer().contains("Remember the heron."));
}

#[test]
fn a_resumed_session_knows_its_todos() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    sandbox.play(&arguments, "todos <<END\n[x] Look\n[>] Leap\n[-] Land\nEND\nsay noted");
    let events = sandbox.play(&arguments, "todos\nsay read").events();
    let completed = events.iter().find(|event| name(event) == "tool_call/completed").unwrap();
    let listed = &completed["tool_call"]["readTodosToolCall"]["result"]["success"]["todos"];
    let listed: Vec<(&str, &str)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["content"].as_str().unwrap(), item["status"].as_str().unwrap()))
        .collect();
    let expected = [
        ("Look", "TODO_STATUS_COMPLETED"),
        ("Leap", "TODO_STATUS_IN_PROGRESS"),
        ("Land", "TODO_STATUS_CANCELLED"),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn a_killed_turn_is_remembered_as_interrupted() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    let killed = sandbox.play(&arguments, "say first\nmisbehave kill-at mid-tool\nshell true");
    assert_eq!(killed.signal(), Some(9));
    let resumed = sandbox.play(&arguments, "recall");
    assert!(resumed.answer().contains("kill-at mid-tool"), "{}", resumed.answer());
}

#[test]
fn a_session_that_died_before_its_first_root_is_empty() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = [FORCED, &["--resume", &id]].concat();
    let killed = sandbox.play(&arguments, "misbehave kill-before-first-root\nsay never");
    assert_eq!(killed.signal(), Some(9));
    assert_eq!(killed.names(), ["system/init", "user"]);
    assert_eq!(sandbox.play(&arguments, "recall").answer(), NOTHING);
}

#[test]
fn the_demonstration_quotes_the_previous_prompt() {
    let sandbox = Sandbox::new();
    let id = Uuid::new_v4().to_string();
    let arguments = ["-p", "--output-format", "stream-json", "--trust", "--resume", &id];
    fs::write(sandbox.workspace().join("notes.txt"), "a note").unwrap();
    let first = finish(sandbox.agent(&arguments), "Show me what you can do.");
    assert!(
        first.answer().contains("1 entries") || first.answer().contains("1 entry"),
        "{}",
        first.answer()
    );
    let inventory = fs::read_to_string(sandbox.workspace().join("caretaker-demo.md")).unwrap();
    assert!(inventory.contains("- `notes.txt`"), "{inventory}");
    assert!(first.names().iter().all(|name| name != "interaction_query/request"));
    let second = finish(sandbox.agent(&arguments), "And again.");
    assert!(
        second.answer().contains("you said: \"Show me what you can do.\""),
        "{}",
        second.answer()
    );
}
