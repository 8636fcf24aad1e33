//! Runs that make Caretaker write too much: the journal, the agent's stderr, checkpoints on request. Everything that
//! Caretaker writes for a run counts against the run.

use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::runs::limits::MIB;
use crate::stage::{Stage, assert_exit, stderr};

/// Room for the batch that went over the limit, the content of the pipe, and the final events.
const SLACK: u64 = 3 * MIB;
/// Prints much more than any of these tests allows, and does not end on its own.
const PRINTER: &str = "misbehave huge-output 200000000\nshell sleep 600";

/// Checks that the run ended because of this limit, said so once, and that its journal stayed near the limit.
#[track_caller]
fn assert_ended(stage: &Stage, output: &Output, limit: &Value, flag: &str) {
    assert_eq!(output.status.code(), Some(137), "{}", stderr(output));
    let ended = stage.ended();
    assert_eq!((&ended["outcome"], &ended["limit"]), (&json!("quota_exceeded"), limit), "{ended}");
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains(flag), "{why}");
    let run = stage.run_ids().pop().unwrap();
    let journal = stage.journal(&run);
    let reached = journal.iter().filter(|entry| entry.line["run"]["kind"] == "limit_reached");
    assert_eq!(reached.count(), 1);
    let length = std::fs::metadata(stage.runs().join(&run).join("events.jsonl")).unwrap().len();
    assert!(length < limit["bytes"].as_u64().unwrap() + SLACK, "{length}");
    stage.assert_no_survivors("after the limit");
}

#[test]
fn an_agents_output_counts_against_its_disk_limit() {
    let stage = Stage::new();
    let output = stage.play(PRINTER, &["--disk", "16MiB", "--timeout", "60s"]);
    assert_ended(&stage, &output, &json!({"limit": "disk", "bytes": 16 * MIB}), "--disk");
}

#[test]
fn an_agents_output_and_its_files_count_together() {
    let stage = Stage::new();
    let script =
        "misbehave huge-output 20000000\nshell head -c 20000000 /dev/zero > filler; sleep 600";
    let output = stage.play(script, &["--disk", "32MiB", "--timeout", "60s"]);
    assert_ended(&stage, &output, &json!({"limit": "disk", "bytes": 32 * MIB}), "--disk");
}

#[test]
fn a_journal_that_grows_too_large_ends_its_run() {
    let limit = json!({"limit": "journal", "bytes": 8 * MIB});
    let stage = Stage::new();
    let output = stage.play(PRINTER, &["--journal", "8MiB", "--timeout", "60s"]);
    assert_ended(&stage, &output, &limit, "--journal");
    // The limit comes from the configuration, and also works without a sandbox.
    stage.configure("min_free = \"0\"\n[limits]\njournal = \"8MiB\"\n");
    for flags in [&[][..], &["--sandbox", "off"]] {
        let output = stage.play(PRINTER, &[flags, &["--timeout", "60s"]].concat());
        assert_ended(&stage, &output, &limit, "--journal");
    }
}

#[test]
fn a_journal_below_its_limit_ends_no_run_and_none_removes_the_limit() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\n[limits]\njournal = \"8MiB\"\n");
    for flags in [["--journal", "32MiB"], ["--journal", "none"]] {
        let output = stage.play("misbehave huge-output 12000000\nsay done", &flags);
        assert_exit(&output, 0);
    }
}

#[test]
fn checkpoints_that_an_agent_asks_for_count_against_its_disk() {
    let stage = Stage::new();
    let script = "shell head -c 30000000 /dev/urandom > a\n\
                  mcp caretaker checkpoint {\"label\":\"one\"}\nshell sleep 600";
    let output = stage.play(script, &["--disk", "48MiB", "--timeout", "120s"]);
    assert_ended(&stage, &output, &json!({"limit": "disk", "bytes": 48 * MIB}), "--disk");
    // Without the checkpoint, the same file is within its limit.
    let script = "shell head -c 30000000 /dev/urandom > a";
    let output = stage.play(script, &["--disk", "48MiB"]);
    assert_exit(&output, 0);
}
