//! The daemon is started, queried, replaced and killed at any moment, and never disturbs a run.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::{DaemonStage, Event, exchange};
use crate::stage::dice::number_from;
use crate::stage::repository::make_repository;
use crate::stage::{Stage, assert_exit, stderr};

#[test]
fn a_daemon_is_started_once_queried_and_stopped_once() {
    let stage = DaemonStage::without_daemon(2);
    let status = stage.output(&["daemon", "status", "--json"]);
    assert_eq!(status.status.code(), Some(69));
    assert_eq!(serde_json::from_slice::<Value>(&status.stdout).unwrap()["running"], json!(false));

    let first = stage.start_daemon();
    let second = stage.start_daemon();
    assert_eq!((&first["changed"], &second["changed"]), (&json!(true), &json!(false)));
    assert_eq!(first["pid"], second["pid"]);
    let socket = first["socket"].as_str().unwrap();
    let mode = std::fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (status, version) = stage.get("/v1/version");
    assert_eq!((status, &version["pid"]), (200, &first["pid"]));
    let logs = stage.output(&["daemon", "logs"]);
    assert!(String::from_utf8_lossy(&logs.stdout).contains("ready"));

    let second = stage.output(&["daemon", "serve"]);
    assert_exit(&second, 4);
    let stopped = stage.output(&["daemon", "stop", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&stopped.stdout).unwrap()["changed"], json!(true));
    assert!(!std::fs::exists(socket).unwrap());
    stage.assert_no_survivors("the daemon");
}

#[test]
fn without_a_daemon_runs_start_immediately_and_requests_that_need_the_queue_are_refused() {
    let stage = Stage::new();
    let output = stage.play("say hello", &[]);
    assert_exit(&output, 0);
    for flags in [&["--queue"][..], &["--priority", "3"], &["--after", "-"], &["--delay", "1s"]] {
        let output = stage.play("say hello", flags);
        assert_exit(&output, 69);
        assert!(stderr(&output).contains("caretaker daemon start"));
    }
    assert_eq!(stage.run_ids().len(), 1, "a refused request leaves nothing behind");
}

#[test]
fn a_daemon_adopts_live_runs_and_reports_their_end() {
    let stage = DaemonStage::without_daemon(2);
    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = stage.detach("say before\nshell cat hold\nsay after", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    stage.start_daemon();
    let (_, queue) = stage.get("/v1/queue");
    assert_eq!(queue["running"], json!(1), "{queue}");
    let events = stage.follow(&format!("/v1/runs/{run}/events"), None).unwrap();
    std::fs::write(&fifo, "go on").unwrap();
    let last = events.last().unwrap();
    assert_eq!(last.data["kind"], json!("run.ended"));
    assert_eq!(last.data["outcome"], json!("succeeded"));
    // A client that reconnects after the run has ended learns that there are no more events.
    let again = stage.follow(&format!("/v1/runs/{run}/events"), last.id.as_deref()).unwrap();
    assert_eq!((again.status, again.count()), (204, 0));
}

/// Reads a run's events from one daemon after another until the run is over. Returns the event numbers in order of
/// arrival.
fn tail_through_daemons(
    stage: &DaemonStage,
    run: &str,
    up: &(Mutex<usize>, Condvar),
) -> Vec<String> {
    let path = format!("/v1/runs/{run}/events");
    let mut seen: Vec<String> = Vec::new();
    let mut known = 0;
    loop {
        if let Ok(events) = stage.follow(&path, seen.last().map(String::as_str)) {
            for event in events {
                let is_the_end = event.data["kind"] == "run.ended";
                seen.push(event.id.unwrap());
                if is_the_end {
                    return seen;
                }
            }
        }
        // The connection broke: wait for the next daemon.
        let (generation, changed) = up;
        let guard = changed
            .wait_while(generation.lock().unwrap(), |generation| *generation <= known)
            .unwrap();
        known = *guard;
    }
}

#[test]
fn killing_the_daemon_again_and_again_loses_no_run_no_event_and_no_queue_entry() {
    let n_kills = number_from("CARETAKER_DAEMON_KILLS", 8);
    let n_runs = number_from("CARETAKER_DAEMON_RUNS", 6);
    let stage = Arc::new(DaemonStage::new(u32::try_from(n_runs).unwrap().div_ceil(2)));
    let talk: String = (0..40).map(|n| format!("say line {n}\nshell true\n")).collect();
    let runs: Vec<String> =
        (0..n_runs).map(|n| stage.queue(&format!("w{n}"), &talk, &[])).collect();
    let up = Arc::new((Mutex::new(1), Condvar::new()));
    let tails: Vec<_> = runs
        .iter()
        .take(10)
        .map(|run| {
            let (stage, run, up) = (Arc::clone(&stage), run.clone(), Arc::clone(&up));
            thread::spawn(move || tail_through_daemons(&stage, &run, &up))
        })
        .collect();
    let plain_tail = stage
        .caretaker(&["tail", &runs[0], "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    // The test kills the daemon after a random number of further events of some run. This uses no clock, and no two
    // rounds are alike.
    let mut last: Option<String> = None;
    for n_kill in 0..n_kills {
        let watched = &runs[n_kill % runs.len()];
        if let Ok(events) = stage.follow(&format!("/v1/runs/{watched}/events"), last.as_deref()) {
            drop(events.take(n_kill * 7 % 11));
        }
        last = None;
        stage.kill_daemon();
        stage.start_daemon();
        *up.0.lock().unwrap() = n_kill + 2;
        up.1.notify_all();
    }

    for run in &runs {
        assert_eq!(stage.wait_for_end(run), Some(0), "{}", stage.why(run));
    }
    for (run, tail) in runs.iter().zip(tails) {
        // The last daemon stays alive, so a tail that waits for the next daemon must stop waiting.
        *up.0.lock().unwrap() += 1;
        up.1.notify_all();
        let seen = tail.join().unwrap();
        let written: Vec<String> =
            stage.journal(run).iter().map(|entry| entry.seq.to_string()).collect();
        assert_eq!(seen, written, "every event once, in order");
    }
    let plain: Vec<Value> = String::from_utf8(plain_tail.wait_with_output().unwrap().stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone())
        .collect();
    assert_eq!(plain.len(), stage.journal(&runs[0]).len());
    for run in &runs {
        let kinds = stage.kinds(run);
        assert_eq!((kinds["attempt"], kinds["released"], kinds["ended"]), (1, 1, 1), "{kinds:?}");
        let inits =
            stage.journal(run).iter().filter(|it| it.line["agent"]["subtype"] == "init").count();
        assert_eq!(inits, 1, "nothing runs twice");
    }
    assert_eq!(stage.get("/v1/queue").1["waiting"], json!([]));
}

/// Starts a daemon that speaks another protocol.
pub(crate) fn start_other(stage: &DaemonStage, protocol: &str) -> std::process::Child {
    let mut child = stage
        .caretaker(&["daemon", "serve", "--report", "--protocol-version", protocol])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut said).unwrap();
    assert!(said.contains("ready"), "{said}");
    child
}

#[test]
fn an_older_daemon_is_replaced_under_load_and_a_newer_one_is_refused_by_name() {
    let stage = DaemonStage::without_daemon(4);
    let mut older = start_other(&stage, "0");
    let refused = stage.play("say hello", &[]);
    assert_eq!(refused.status.code(), Some(69));
    let said = stderr(&refused);
    assert!(said.contains("protocol 0") && said.contains("daemon restart"), "{said}");

    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = stage.detach("shell cat hold\nsay after", &["--direct"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let shim = stage.shim_pid(&run);
    let started = stage.start_daemon();
    assert_eq!((&started["protocol"], &started["changed"]), (&json!(1), &json!(true)));
    older.wait().unwrap();
    assert_eq!(stage.shim_pid(&run), shim);
    assert_eq!(stage.get("/v1/queue").1["running"], json!(1));
    stage.output(&["daemon", "stop"]);

    let mut newer = start_other(&stage, "99");
    for command in [&["daemon", "start"][..], &["daemon", "restart"], &["queue"]] {
        let refused = stage.output(command);
        assert_eq!(refused.status.code(), Some(69), "{command:?}: {}", stderr(&refused));
    }
    assert_eq!(stage.daemon_note()["pid"], json!(newer.id()), "the other daemon was not touched");
    assert!(stage.output(&["ps", "--json"]).status.success(), "reading still works");
    // Both got an answer over HTTP that names both protocols.
    let asked = exchange(
        stage.connect().unwrap(),
        "GET",
        "/v1/version",
        &[("caretaker-protocol", "1")],
        "",
    );
    assert_eq!(asked.0, 426);
    std::fs::write(&fifo, "go on").unwrap();
    assert_eq!(stage.wait_for_end(&run), Some(0));
    stage.output(&["daemon", "stop"]);
    newer.wait().unwrap();
}

#[test]
fn a_restart_that_cannot_succeed_leaves_the_running_daemon() {
    let stage = DaemonStage::new(2);
    let pid = stage.daemon_note()["pid"].clone();
    let refused = stage.output(&["daemon", "restart", "--listen", "0.0.0.0:0"]);
    assert_exit(&refused, 69);
    stage.configure("[queue]\ncap = \"many\"\n");
    let refused = stage.output(&["daemon", "restart"]);
    assert_exit(&refused, 2);
    assert_eq!(stage.get("/v1/version").1["pid"], pid);
}

#[test]
fn a_slow_reader_that_leaves_and_returns_gets_everything_once_and_delays_no_run() {
    let stage = DaemonStage::new(4);
    let flood: String =
        (0..300).map(|n| format!("say {n} {}\nshell true\n", "x".repeat(600))).collect();
    let run = stage.queue("flood", &flood, &["--timeout", "10m"]);
    let path = format!("/v1/runs/{run}/events");
    // This client never reads a byte. The run ends anyway.
    let mut deaf = stage.connect().unwrap();
    deaf.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut seen: Vec<String> = Vec::new();
    let mut has_ended = false;
    while !has_ended {
        let mut events = stage.follow(&path, seen.last().map(String::as_str)).unwrap();
        // This client reads a few events and disconnects in the middle of the transfer.
        for event in events.by_ref().take(97) {
            has_ended |= event.data["kind"] == "run.ended";
            seen.push(event.id.unwrap());
        }
    }
    let written: Vec<String> =
        stage.journal(&run).iter().map(|entry| entry.seq.to_string()).collect();
    assert_eq!(seen, written);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    drop(deaf);
}

#[test]
fn the_stream_of_all_runs_continues_with_the_next_daemon() {
    let stage = DaemonStage::new(4);
    let mut events = stage.follow("/v1/events", None).unwrap();
    let first = stage.queue("one", "say one", &[]);
    let mut seen: Vec<(String, u64)> = Vec::new();
    let mut last = None;
    let number = |event: &Event| {
        let run = event.data["run"].as_str().unwrap().to_owned();
        (run, event.data["event"]["seq"].as_u64().unwrap())
    };
    for event in events.by_ref().take(5) {
        seen.push(number(&event));
        last = event.id;
    }
    drop(events);
    stage.kill_daemon();
    assert_eq!(stage.wait_for_end(&first), Some(0));
    stage.start_daemon();
    let second = stage.queue("two", "say two", &[]);
    assert_eq!(stage.wait_for_end(&second), Some(0));
    let mut n_ended = 0;
    let resumed = stage.follow("/v1/events", last.as_deref()).unwrap();
    for event in resumed {
        seen.push(number(&event));
        n_ended += usize::from(event.data["event"]["kind"] == "run.ended");
        if n_ended == 2 {
            break;
        }
    }
    for run in [&first, &second] {
        let of_run: Vec<u64> =
            seen.iter().filter(|(of, _)| of == run).map(|(_, seq)| *seq).collect();
        let written: Vec<u64> = stage.journal(run).iter().map(|entry| entry.seq).collect();
        assert_eq!(of_run, written);
    }
}

#[test]
fn a_stranger_on_loopback_gets_nothing_and_a_client_with_the_token_gets_in() {
    let stage = DaemonStage::without_daemon(2);
    let refused = stage.output(&["daemon", "start", "--listen", "0.0.0.0:0"]);
    assert_exit(&refused, 69);
    let started = stage.output(&["daemon", "start", "--listen", "127.0.0.1:0", "--json"]);
    let started: Value = serde_json::from_slice(&started.stdout).unwrap();
    let address = started["listen"].as_str().unwrap().to_owned();
    let token_file = started["token_file"].as_str().unwrap();
    assert_eq!(std::fs::metadata(token_file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(token_file).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let foreign_host = address.replace("127.0.0.1", "evil.example");
    let own_origin = format!("http://{address}");

    let ask = |headers: &[(&str, &str)]| {
        let stream = TcpStream::connect(&address).unwrap();
        exchange(stream, "GET", "/v1/runs?all=true", headers, "")
    };
    let good = ("authorization", bearer.as_str());
    let host = ("host", address.as_str());
    assert_eq!(ask(&[host, good]).0, 200);
    assert_eq!(ask(&[host, good, ("origin", &own_origin)]).0, 200);
    let hostile: &[(&str, &[(&str, &str)])] = &[
        ("no token", &[host]),
        ("an empty token", &[host, ("authorization", "Bearer ")]),
        ("a wrong token", &[host, ("authorization", "Bearer 0000")]),
        ("two tokens", &[host, good, good]),
        ("no host", &[good]),
        ("another host", &[("host", &foreign_host), good]),
        ("two hosts", &[host, host, good]),
        ("another port", &[("host", "127.0.0.1:1"), good]),
        ("another site's page", &[host, good, ("origin", "http://evil.example")]),
        ("a page without an origin", &[host, good, ("origin", "null")]),
    ];
    for (who, headers) in hostile {
        let (status, body) = ask(headers);
        assert!(matches!(status, 400 | 401 | 403), "{who}: {status}");
        assert!(!body.contains("runs"), "{who} learned something: {body}");
        assert!(!body.contains(token.trim()));
    }
    // An invalid request does not affect other requests.
    for bytes in [&b"\x00\xff\r\n\r\n"[..], b"GET /v1/runs HTTP/9.9\r\n\r\n", b"G"] {
        TcpStream::connect(&address).unwrap().write_all(bytes).unwrap();
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(200_000));
    TcpStream::connect(&address).unwrap().write_all(long.as_bytes()).ok();
    assert_eq!(ask(&[host, good]).0, 200);
}

#[test]
fn a_refusal_has_a_code_for_programs() {
    let stage = DaemonStage::new(2);
    let code =
        |(status, body): (u16, Value)| (status, body["code"].as_str().map(ToOwned::to_owned));
    let is = |status: u16, code: &str| (status, Some(code.to_owned()));
    assert_eq!(code(stage.get("/v1/nothing")), is(404, "no_such_path"));
    assert_eq!(code(stage.get("/v1/runs/none")), is(404, "no_such_run"));
    assert_eq!(code(stage.get("/v1/sessions/none")), is(404, "no_such_session"));
    assert_eq!(code(stage.get("/v1/runs?colour=red")), is(400, "invalid_request"));
    assert_eq!(code(stage.get("/v1/events?since=nonsense")), is(400, "no_such_event"));
    assert_eq!(code(stage.post("/v1/version", &json!({}))), is(405, "no_such_method"));
    let answer = json!({"text": "yes"});
    assert_eq!(code(stage.post("/v1/inbox/q-9/answer", &answer)), is(404, "no_such_question"));
    let request = json!({"prompt": "x", "workspace": "/w", "agent": "/none"});
    let (_, said) = code(stage.post("/v1/runs", &request));
    assert!(said.is_some(), "a refusal by the checks has a kind too");
    stage.post("/v1/queue/drain", &json!({}));
    assert_eq!(code(stage.post("/v1/runs", &request)), is(409, "queue_draining"));
}

#[test]
fn an_impossible_request_is_refused_with_a_message() {
    let stage = DaemonStage::new(2);
    let (status, body) = stage.get("/v1/nothing");
    assert_eq!((status, body["error"].is_string(), body["hint"].is_string()), (404, true, true));
    assert_eq!(stage.get("/v1/runs/none").0, 404);
    assert_eq!(stage.get("/v1/runs?colour=red").0, 400);
    assert_eq!(stage.post("/v1/version", &json!({})).0, 405);
    assert_eq!(stage.post("/v1/queue/caps", &json!({"cap": "group", "limit": 1})).0, 400);
    assert_eq!(stage.post("/v1/runs", &json!({"prompt": "x"})).0, 400);
    assert_eq!(stage.get("/v1/events?since=nonsense").0, 400);
    let relative = json!({"prompt": "x", "workspace": "here", "agent": "simulated"});
    let (status, body) = stage.post("/v1/runs", &relative);
    assert_eq!(status, 400);
    assert!(body["error"].as_str().unwrap().contains("absolute"), "{body}");
    let missing = json!({"prompt": "x", "workspace": "/not/there", "agent": "simulated"});
    assert_eq!(stage.post("/v1/runs", &missing).0, 404);
    // No API request can start a run without a sandbox.
    let workspace = stage.new_workspace("here");
    let off =
        json!({"prompt": "x", "workspace": workspace, "agent": "simulated", "profile": "off"});
    let (status, body) = stage.post("/v1/runs", &off);
    assert_eq!(status, 400, "{body}");
    assert!(body["error"].as_str().unwrap().contains("only the command line can"), "{body}");
    assert_eq!(stage.run_ids(), Vec::<String>::new(), "a refused request leaves nothing behind");
}

#[test]
fn the_api_lists_sessions_as_the_command_line_does_with_the_same_verdict() {
    let stage = DaemonStage::new(2);
    let run = stage.queue("one", "say hello", &[]);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    let session = stage.session_of(&run);
    std::fs::remove_dir_all(stage.home().join("one")).unwrap();
    let printed = stage.output(&["sessions", "ls", "--json"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let (status, listed) = stage.get("/v1/sessions");
    assert_eq!((status, &listed), (200, &printed));
    let head = &listed["sessions"][0];
    assert_eq!((&head["id"], &head["activity"]), (&json!(session), &json!("not_resumable")));
    assert!(head["refused"]["kind"].is_string(), "{head}");
    let (status, one) = stage.get(&format!("/v1/sessions/{session}"));
    assert_eq!(
        (status, &one["session"]["head"]["activity"]),
        (200, &json!("not_resumable")),
        "{one}"
    );
    assert_eq!(stage.get("/v1/sessions?limit=0").1["n_sessions"], json!(1));
    assert_eq!(stage.get("/v1/sessions/none").0, 404);
}

/// The API knows every flag of `run` that describes the run. It does not know flags for the command itself.
#[test]
fn the_api_accepts_what_the_command_line_accepts() {
    let stage = DaemonStage::new(2);
    make_repository(&stage.workspace());
    let request = json!({
        "prompt": "Play:\n```agent\nsay done\n```", "workspace": stage.workspace(), "agent": "simulated",
        "worktree": true, "network": "none", "allow_host": ["a.example.org"], "memory": "1GiB",
        "processes": 300, "cpus": 1.5, "max_file_size": "1GiB", "disk": "2GiB", "mode": "agent",
        "no_checkpoint": true, "no_user_mcp": true, "group": "night", "group_budget": "tool_calls=500",
        "max_tokens": 7_000_000, "priority": 3,
    });
    let (status, answer) = stage.post("/v1/runs", &request);
    assert_eq!(status, 202, "{answer}");
    let run = answer["run"].as_str().unwrap();
    assert_eq!(stage.wait_for_end(run), Some(0), "{}", stage.why(run));
    let spec = fs::read(stage.runs().join(run).join("spec.json")).unwrap();
    let spec: Value = serde_json::from_slice(&spec).unwrap();
    assert_ne!(spec["workspace"], json!(stage.workspace()), "the run has a worktree");
    assert_eq!(
        (&spec["network"], &spec["allow_hosts"]),
        (&json!("none"), &json!(["a.example.org"]))
    );
    let limits = &spec["resources"];
    assert_eq!((&limits["memory_bytes"], &limits["processes"]), (&json!(1_u64 << 30), &json!(300)));
    assert_eq!(
        (&limits["cpu_milli"], &spec["limits"]["tokens"]),
        (&json!(1500), &json!(7_000_000))
    );
    assert_eq!((&spec["saving"], &spec["queue"]["priority"]), (&Value::Null, &json!(3)));
    let (_, groups) = stage.get("/v1/groups");
    assert_eq!(groups["groups"][0]["budget"]["tool_calls"], 500, "{groups}");

    for (field, value, part) in [
        ("timeout", json!("soon"), "`timeout` cannot be used: `soon` is not a duration"),
        ("profile", json!("off"), "only the command line can"),
        ("expose", json!(["keys"]), "`keys` is not an absolute path"),
        ("secret", json!(["X=file:token"]), "`token` is not an absolute path"),
        ("user_mcp", json!(true), "contradict each other"),
        ("detach", json!(true), "unknown field `detach`"),
    ] {
        let mut refused = request.clone();
        refused[field] = value;
        let (status, answer) = stage.post("/v1/runs", &refused);
        let error = answer["error"].as_str().unwrap();
        assert!(status == 400 && error.contains(part), "{field}: {status} {error}");
    }
}
