//! Commands that read runs, on journals that the tests write as a supervisor would.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use pretty_assertions::assert_eq;
use run_journal::{
    AgentLine, JournalWriter, LineEnding, Redaction, RunDirectory, RunLock, StateRoot,
};
use run_protocol::{FailureClass, RunEvent, RunId, RunOutcome, RunSpec};
use serde_json::{Value, json};

use crate::scene::Scene;

/// A run whose supervisor is the test.
struct Supervised {
    directory: RunDirectory,
    writer: JournalWriter,
    lock: RunLock,
}

impl Supervised {
    fn begin(scene: &Scene, name: Option<&str>) -> Self {
        let state = StateRoot::new(scene.path("state"));
        let directory = RunDirectory::create(&state, &spec(scene, name), b"say hi").unwrap();
        let lock = directory.lock().unwrap();
        let writer = JournalWriter::open(&directory, &lock).unwrap();
        Self { directory, writer, lock }
    }

    fn id(&self) -> String {
        self.directory.run_id().to_string()
    }

    /// The time of all its events. It is recent, because `ps` does not list a run that was lost long ago.
    fn moment(&self) -> u64 {
        self.directory.run_id().created_ms()
    }

    fn agent(&mut self, line: &str) {
        let moment = self.moment();
        self.writer.agent_line(
            moment,
            AgentLine::Json(line.as_bytes()),
            LineEnding::LineFeed,
            Redaction::Untouched,
        );
        self.writer.flush().unwrap();
    }

    fn event(&mut self, event: &RunEvent) {
        let moment = self.moment();
        self.writer.event(moment, event, Redaction::Untouched);
        self.writer.flush().unwrap();
    }

    fn end(mut self, outcome: RunOutcome, why: &str) -> String {
        self.event(&RunEvent::Ended {
            outcome,
            why: why.to_owned(),
            exit_code: Some(1),
            duration_ms: 4_200,
            stderr_tail: "something on stderr\n".to_owned(),
        });
        let id = self.id();
        self.writer.finish().unwrap();
        id
    }

    /// Leaves the run as a killed supervisor would.
    fn die(self) -> String {
        let id = self.id();
        drop((self.writer, self.lock));
        id
    }
}

fn spec(scene: &Scene, name: Option<&str>) -> RunSpec {
    let run = RunId::generate();
    serde_json::from_value(json!({
        "run": run,
        "created_ms": run.created_ms(),
        "name": name,
        "session": "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11",
        "session_start": "new",
        "workspace": scene.path("home/work"),
        "agent": {"kind": "cursor", "program": "/opt/cursor-agent", "expose": [], "version": "2026.10.01-e373342"},
        "tool_approval": "force",
        "profile": "default",
        "profile_text": "",
        "bwrap": "/usr/bin/bwrap",
        "home": scene.path("home"),
        "host_config_root": scene.path("home/.cursor"),
        "limits": {},
        "socket_dir": scene.path("run/caretaker"),
    }))
    .unwrap()
}

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","model":"Auto"}"#;
const STARTED: &str = r#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"ls"}}},"timestamp_ms":1000}"#;
const COMPLETED: &str = r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"ls"},"result":{"success":{"exitCode":0}}}},"timestamp_ms":1200}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"","duration_ms":6000,"usage":{"inputTokens":14921,"outputTokens":806}}"#;

/// Makes a run of a few events with this outcome.
fn ended(scene: &Scene, name: Option<&str>, outcome: RunOutcome, why: &str) -> String {
    let mut run = Supervised::begin(scene, name);
    run.event(&RunEvent::Released);
    for line in [INIT, STARTED, COMPLETED, RESULT] {
        run.agent(line);
    }
    run.end(outcome, why)
}

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(text: &str) -> Vec<String> {
    events(text).iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn show_ps_wait_and_kill_report_a_run_that_is_over() {
    let scene = Scene::new();
    let outcome = RunOutcome::Failed { class: FailureClass::Auth };
    let id = ended(&scene, Some("nightly"), outcome, "nobody is logged in");

    let shown: Value =
        serde_json::from_str(scene.caretaker(["show", "-", "--json"]).stdout()).unwrap();
    assert_eq!(
        (&shown["run"], &shown["state"]["outcome"], &shown["exit_code"], &shown["why"]),
        (&json!(id), &json!("failed"), &json!(77), &json!("nobody is logged in"))
    );

    assert_eq!(scene.caretaker(["ps", "-q"]).stdout(), "");
    assert_eq!(scene.caretaker(["ps", "--all", "-q"]).stdout(), format!("{id}\n"));
    assert_eq!(scene.caretaker(["wait", "nightly"]).code(), 77);
    for (command, code) in [("wait", 77), ("kill", 0)] {
        let reported = scene.caretaker([command, "--json", "nightly"]);
        assert_eq!((reported.code(), reported.stderr()), (code, ""));
        let report: Value = serde_json::from_str(reported.stdout()).unwrap();
        assert_eq!(
            (&report["v"], &report["run"], &report["name"], &report["exit_code"]),
            (&json!(1), &json!(id), &json!("nightly"), &json!(77))
        );
        assert_eq!(
            (&report["state"]["outcome"], &report["why"]),
            (&json!("failed"), &json!("nobody is logged in"))
        );
    }
    let killed = scene.caretaker(["kill", "nightly"]);
    assert_eq!((killed.code(), killed.stdout()), (0, ""));
    assert!(killed.stderr().contains("failed (authentication)"), "{}", killed.stderr());
}

#[test]
fn a_tail_begins_anywhere_and_comes_in_three_forms() {
    let scene = Scene::new();
    let id = ended(&scene, None, RunOutcome::Succeeded, "the agent gave its result");
    let all = [
        "run.created",
        "run.released",
        "agent.init",
        "agent.tool_started",
        "agent.tool_completed",
        "agent.result",
        "run.ended",
    ];
    let json = scene.caretaker(["tail", &id, "--json"]);
    assert_eq!(kinds(json.stdout()), all);
    let numbers: Vec<u64> =
        events(json.stdout()).iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=7).collect::<Vec<_>>());

    assert_eq!(kinds(scene.caretaker(["tail", "-", "--json", "--since", "5"]).stdout()), all[5..]);
    assert_eq!(
        kinds(scene.caretaker(["tail", "-", "--json", "--since", "1:5"]).stdout()),
        all[5..]
    );
    assert_eq!(kinds(scene.caretaker(["tail", "-", "--json", "-n", "2"]).stdout()), all[5..]);
    assert_eq!(
        scene.caretaker(["tail", "-", "--raw"]).stdout(),
        format!("{INIT}\n{STARTED}\n{COMPLETED}\n{RESULT}\n")
    );
    let text = scene.caretaker(["tail", "-f", "-"]);
    assert_eq!(
        text.stdout().lines().skip(2).collect::<Vec<_>>(),
        [
            "session 6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11 · Auto · /w",
            "→ shell ls",
            "✓ shell ls · 200 ms",
            "✓ done · 6.0 s · 14,921 tokens in, 806 out",
            "✓ succeeded after 4.2 s",
        ]
    );
    assert_eq!((text.code(), text.stderr()), (0, ""));
}

#[test]
fn a_tail_that_follows_shows_each_event_as_it_comes_and_ends_with_the_run() {
    let scene = Scene::new();
    let mut run = Supervised::begin(&scene, None);
    let mut tail = scene
        .command()
        .args(["tail", "-f", "--json", &run.id()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = || {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        event["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(next(), "run.created");
    run.agent(INIT);
    assert_eq!(next(), "agent.init");
    run.agent(STARTED);
    assert_eq!(next(), "agent.tool_started");
    run.end(RunOutcome::Cancelled, "it was stopped on request");
    assert_eq!(next(), "run.ended");
    assert!(tail.wait().unwrap().success());
    assert!(lines.next().is_none());
}

#[test]
fn a_run_whose_supervisor_died_is_lost_and_says_so() {
    let scene = Scene::new();
    let mut run = Supervised::begin(&scene, Some("doomed"));
    run.event(&RunEvent::Released);
    run.agent(INIT);
    let id = run.die();

    assert_eq!(scene.caretaker(["ps", "-q"]).stdout(), format!("{id}\n"));
    assert_eq!(scene.caretaker(["wait", "doomed"]).code(), 5);
    let tail = scene.caretaker(["tail", "-f", "--json", "doomed"]);
    assert_eq!(kinds(tail.stdout()), ["run.created", "run.released", "agent.init"]);
    assert_eq!(scene.caretaker(["kill", "doomed"]).code(), 0);
}

#[test]
fn a_live_run_is_listed_and_waiting_for_it_can_time_out() {
    let scene = Scene::new();
    let mut run = Supervised::begin(&scene, Some("busy"));
    run.event(&RunEvent::Released);
    run.event(&RunEvent::Progress { text: "half way".to_owned(), percent: Some(50.0) });
    let listed: Value = serde_json::from_str(scene.caretaker(["ps", "--json"]).stdout()).unwrap();
    assert_eq!(listed["runs"][0]["state"]["state"], "running");

    let waited = scene.caretaker(["wait", "busy", "--timeout", "50ms"]);
    assert_eq!((waited.code(), waited.stdout()), (75, ""));
    let waited = scene.caretaker(["wait", "busy", "--timeout", "50ms", "--json"]);
    let report: Value = serde_json::from_str(waited.stdout()).unwrap();
    assert_eq!(
        (waited.code(), &report["state"]["state"], &report["exit_code"]),
        (75, &json!("running"), &Value::Null)
    );

    let taken = scene.caretaker(["run", "--agent", "simulated", "--name", "busy", "x"]);
    assert_eq!(taken.code(), 4);
    assert!(taken.stderr().contains(&run.id()), "{}", taken.stderr());
    run.end(RunOutcome::Succeeded, "done");
}

#[test]
fn waiting_for_several_runs_gives_the_exit_code_of_the_first_that_did_not_succeed() {
    let scene = Scene::new();
    let good = ended(&scene, None, RunOutcome::Succeeded, "done");
    let cancelled = ended(&scene, None, RunOutcome::Cancelled, "stopped");
    let failed = ended(&scene, None, RunOutcome::AgentError, "failed");
    assert_eq!(scene.caretaker(["wait", &good]).code(), 0);
    assert_eq!(scene.caretaker(["wait", &good, &cancelled, &failed]).code(), 130);
    assert_eq!(scene.caretaker(["wait", &failed, &cancelled]).code(), 1);
}

#[test]
fn a_run_is_found_by_the_end_of_its_id_and_a_name_means_its_last_run() {
    let scene = Scene::new();
    let first = ended(&scene, Some("nightly"), RunOutcome::Succeeded, "done");
    let second = ended(&scene, Some("nightly"), RunOutcome::Succeeded, "done");
    let found = |text: &str| -> String {
        let answer = scene.caretaker(["show", "--json", text]);
        let shown: Value = serde_json::from_str(answer.stdout()).unwrap();
        shown["run"].as_str().unwrap().to_owned()
    };
    assert_eq!(found("nightly"), second);
    assert_eq!(found(first.rsplit('-').next().unwrap()), first);
    assert_eq!(found(&first), first);
    assert_eq!(found("-"), second);

    // Both runs began in the same hour, so their ids begin alike.
    let ambiguous = scene.caretaker(["show", &first[..6]]);
    assert_eq!(ambiguous.code(), 2);
}

#[test]
fn a_reader_that_goes_away_ends_a_tail_quietly() {
    let scene = Scene::new();
    let mut run = Supervised::begin(&scene, None);
    let mut tail = scene
        .command()
        .args(["tail", "-f", "--raw", &run.id()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    run.agent(INIT);
    let mut stdout = BufReader::new(tail.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(stdout);
    // A child that another test forks at this moment holds a copy of the pipe until it calls `exec`. Until then a write
    // to the pipe does not fail.
    while tail.try_wait().unwrap().is_none() {
        run.agent(STARTED);
    }
    let output = tail.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    run.end(RunOutcome::Succeeded, "done");
}
