//! Where a daemon listens, and the positions that its readers report.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::assert_exit;
use crate::stage::daemon_stage::{DaemonStage, exchange};

#[test]
fn a_restart_keeps_the_daemons_options() {
    let stage = DaemonStage::without_daemon(2);
    let daemon = |args: &[&str]| {
        let output = stage.output(&[&["daemon"], args].concat());
        assert_exit(&output, 0);
        output
    };
    let told = |args: &[&str]| -> Value {
        serde_json::from_slice(&daemon(&[args, &["--json"]].concat()).stdout).unwrap()
    };
    let started = told(&["start", "--listen", "127.0.0.1:0"]);
    let address = started["listen"].as_str().unwrap().to_owned();
    let restarted = told(&["restart"]);
    assert_ne!(restarted["pid"], started["pid"]);
    assert_eq!((&restarted["listen"], &restarted["changed"]), (&json!(address), &json!(true)));
    let token = std::fs::read_to_string(restarted["token_file"].as_str().unwrap()).unwrap();
    let headers =
        [("host", address.as_str()), ("authorization", &format!("Bearer {}", token.trim()))];
    let ask = || exchange(TcpStream::connect(&address).unwrap(), "GET", "/v1/queue", &headers, "");
    assert_eq!(ask().0, 200);
    daemon(&["stop"]);
    assert!(TcpStream::connect(&address).is_err(), "the stopped daemon still listens");
    assert_eq!(told(&["restart"]).get("listen"), None);
    let moved = told(&["restart", "--listen", "127.0.0.1:0"]);
    let moved = moved["listen"].as_str().unwrap().to_owned();
    daemon(&["stop"]);

    // `start` replaces a daemon that speaks another protocol. The new daemon listens on the same address.
    let serve = ["daemon", "serve", "--report", "--protocol-version", "0", "--listen", &moved];
    let mut older = stage.caretaker(&serve).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(older.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("ready"), "{said}");
    assert_eq!(told(&["start"])["listen"], json!(moved));
    older.wait().unwrap();
}

#[test]
fn a_reader_that_claims_to_be_ahead_gets_an_error_and_does_not_wait() {
    let stage = DaemonStage::new(2);
    let fifo = stage.new_workspace("one").join("hold");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let run = stage.queue("one", "say hello\nshell cat hold", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let path = format!("/v1/runs/{run}/events");
    let refused = |path: &str, last: Option<&str>| -> String {
        let headers: Vec<(&str, &str)> =
            last.map(|last| ("last-event-id", last)).into_iter().collect();
        let stream: UnixStream = stage.connect().unwrap();
        let (status, body) = exchange(stream, "GET", path, &headers, "");
        assert_eq!(status, 400, "{path} {last:?}: {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(body["hint"].is_string(), "{body}");
        body["error"].as_str().unwrap().to_owned()
    };
    let error = refused(&path, Some("999999"));
    assert!(error.contains("the run has no event 999999: its last event is "), "{error}");
    refused(&format!("{path}?since=999999"), None);
    refused(&path, Some("7:1"));
    // The same for a reader of all runs, with a position in one run and with a time.
    let id = run.replace('-', "");
    refused("/v1/events", Some(&format!("1.0.{id}affffff")));
    refused(&format!("/v1/events?since=1.0.{id}affffff"), None);
    refused("/v1/events", Some("1.ffffffffffff"));
    // A reader at the run's last position waits, and gets the new events.
    let (_, one) = stage.get(&format!("/v1/runs/{run}"));
    let last = one["run"]["last_event"]["seq"].to_string();
    let mut events = stage.follow(&path, Some(&last)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"go").unwrap();
    assert!(events.any(|event| event.data["kind"] == "run.ended"));
    refused(&path, Some("999999"));
}

#[test]
fn a_relative_state_directory_is_the_same_place_for_runs_and_for_the_daemon() {
    let stage = DaemonStage::without_daemon(2);
    let ask = |args: &[&str]| {
        let mut command = stage.caretaker(args);
        command.env("CARETAKER_HOME", "relative-state").current_dir(stage.workspace());
        let output = command.output().unwrap();
        assert_exit(&output, 0);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let started = ask(&["daemon", "start", "--json"]);
    let status = ask(&["daemon", "status", "--json"]);
    let stopped = ask(&["daemon", "stop", "--json"]);
    assert_eq!(status["pid"], started["pid"], "{status}");
    assert_eq!(stopped["changed"], true, "{stopped}");
    assert!(stage.workspace().join("relative-state/daemon.log").exists());
}
