//! `caretaker parse` through the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::programs::{checkout, program};

fn caretaker() -> Command {
    let mut command = Command::new(program("caretaker"));
    command.env_clear();
    command
}

fn partial_output() -> PathBuf {
    checkout().join("fixtures/streams/partial-output.ndjson")
}

fn parse(args: &[&str], input: &[u8]) -> Output {
    let mut child = caretaker()
        .arg("parse")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A child that fails early closes its stdin. The test checks only its output.
    child.stdin.take().unwrap().write_all(input).ok();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_stream_with_partial_output_in_all_four_forms_gives_each_word_once() {
    let output = caretaker().args(["parse", "--text"]).arg(partial_output()).output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "I'll look at the page first. May I fetch it? Yes: haha, done.\n"
    );
    let output =
        caretaker().args(["parse", "--summary", "--json"]).arg(partial_output()).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&summary["text_agrees"], &summary["unknown_kinds"], &summary["malformed_lines"]),
        (&json!(true), &json!({}), &json!([]))
    );
}

#[test]
fn typed_events_come_one_per_line_with_the_number_of_their_line() {
    let output = parse(&["--json"], b"noise\n{\"type\":\"thinking\",\"subtype\":\"completed\"}\n");
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({"line":1,"kind":"noise","reason":"not_json","text":"noise"}),
            json!({"line":2,"kind":"thinking_completed"})
        ]
    );
}

#[test]
fn unknown_and_malformed_lines_are_reported_on_stderr_and_are_not_errors() {
    let output = parse(&[], b"noise\n{\"type\":\"brand\",\"subtype\":\"new\"}\n");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "· noise\n· unknown event brand/new\n");
    assert_eq!(
        text(&output.stderr),
        "note: events of unknown kinds: brand/new ×1\nnote: 1 line is not JSON: 1\n"
    );
}

#[test]
fn an_event_is_shown_while_the_pipe_is_still_open() {
    let mut child =
        caretaker().arg("parse").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, r#"{{"type":"user","message":{{"content":"hello"}}}}"#).unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "> hello\n");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let mut child = caretaker()
        .args(["parse", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let line = b"{\"type\":\"thinking\",\"subtype\":\"completed\"}\n";
    while stdin.write_all(&line.repeat(1000)).is_ok() {}
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().success(), stderr.as_str()), (true, ""));
}

#[test]
fn a_line_over_the_ceiling_is_reported_and_the_stream_continues() {
    let mut stream =
        b"{\"type\":\"tool_call\",\"subtype\":\"completed\",\"call_id\":\"c\",\"x\":\"".to_vec();
    stream.resize(17 << 20, b'x');
    stream.extend_from_slice(b"\"}\n{\"type\":\"assistant\",\"message\":\"still here\"}\n");
    let output = parse(&["--json"], &stream);
    let events: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&events[0]["kind"], &events[0]["length"], &events[0]["call_id"]),
        (&json!("oversized"), &json!((17 << 20) + 2), &json!("c"))
    );
    assert_eq!((events.len(), &events[1]["text"]), (2, &json!("still here")));
}
