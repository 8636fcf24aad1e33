//! How many tools the servers have together.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{done, repository_defines, server, stage_with, stdout};
use crate::stage::{Stage, stderr};

#[test]
fn tools_are_counted_in_a_sandbox_and_more_than_forty_are_warned_of() {
    let mut many = server("many");
    many["env"]["N_TOOLS"] = json!("30");
    let marker = json!({"command": "/bin/sh", "args": ["-c", "touch \"$HOME/../it-ran-on-the-host\"; exit 1"]});
    let listed = json!({"url": "https://docs.test/mcp", "enabledTools": ["a", "b"]});
    let stage = stage_with(json!({"many": many, "docs": listed, "notes": server("notes")}));
    repository_defines(&stage, &json!({"theirs": marker}));
    let counted = done(&stage.output(&[
        "mcp",
        "tools",
        "--mcp",
        "notes",
        "--mcp-from-repo",
        "theirs",
        "--json",
    ]));
    assert_eq!((&counted["total"], &counted["is_over"]), (&json!(13), &json!(false)));
    assert_eq!(counted["uncounted"], json!(["theirs"]));
    let names: Vec<&Value> =
        counted["servers"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["caretaker", "notes", "theirs"]);
    assert_eq!(counted["servers"][1]["tools"], json!(["tell"]));
    assert_eq!(counted["servers"][2]["state"], "failed");
    assert!(!stage.root().join("it-ran-on-the-host").exists());

    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("45 tools in all"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("have 45 tools; Cursor is said to use 40"),
        "{}",
        stderr(&output)
    );
    // Nothing of it stays.
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert!(!stage.home().join(".cursor/chats").exists());
}

/// A server that never answers, so that its tools are counted until the time is up.
fn silent_server() -> Value {
    json!({"command": "/bin/sleep", "args": ["60"]})
}

#[test]
fn a_count_of_tools_that_a_signal_ends_leaves_nothing_behind() {
    let stage = stage_with(json!({"silent": silent_server()}));
    let mut counting = stage.caretaker(&["mcp", "tools", "--user-mcp"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !stage.processes().iter().any(|(_, command)| command.contains("/bin/sleep")) {
        assert!(Instant::now() < deadline, "the server was not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(counting.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(counting.wait().unwrap().code(), Some(130));
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    let kept = std::fs::read_dir(stage.root().join("state/mcp-tools")).unwrap();
    assert_eq!(kept.count(), 0);
    stage.assert_no_survivors("a count of tools that a signal ended");
}

#[test]
fn what_a_killed_count_of_tools_left_is_swept_away() {
    let stage = Stage::new();
    let left = stage.root().join("state/mcp-tools/01234567-89ab-4cde-8f01-23456789abcd");
    std::fs::create_dir_all(left.join("chats")).unwrap();
    done(&stage.output(&["ps"]));
    assert!(!left.exists());
}

#[test]
fn the_number_of_tools_is_remarked_on_once() {
    let tools: Vec<String> = (0..50).map(|n| format!("t{n}")).collect();
    let stage = stage_with(
        json!({"docs": {"url": "https://docs.test/mcp", "enabledTools": tools}, "notes": server("notes")}),
    );
    let output = stage.output(&["mcp", "tools", "--user-mcp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("Cursor is said to use").count(), 1, "{}", stderr(&output));
}
