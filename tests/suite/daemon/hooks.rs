//! The daemon calls each command and webhook once for each transition of a run, even if the daemon is killed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::{assert_exit, stderr};

/// A FIFO that hooks write to, one line for each call.
struct Bell {
    path: PathBuf,
    lines: BufReader<File>,
}

impl Bell {
    fn hang(directory: &Path) -> Self {
        let path = directory.join("bell");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // A FIFO that is open for both reading and writing never reports its end.
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Self { path, lines: BufReader::new(file) }
    }

    /// A hook that writes its input to the FIFO.
    fn hook(&self, on: &str) -> String {
        let script = format!("given=$(cat); echo \\\"$given\\\" > {}", self.path.display());
        format!("[[hooks]]\non = [{on}]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n")
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads until this run has ended. Returns `(transition, run)` for each line.
    fn until_ended(&mut self, run: &str) -> Vec<(String, String)> {
        let mut rung = Vec::new();
        loop {
            let given = self.next();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            rung.push((text(&given["transition"]), text(&given["run"]["run"])));
            if rung.last().unwrap() == &("ended".to_owned(), run.to_owned()) {
                return rung;
            }
        }
    }
}

fn stage_with(config: impl FnOnce(&DaemonStage) -> String) -> DaemonStage {
    let stage = DaemonStage::without_daemon(2);
    let path = stage.home().join(".config/caretaker/config.toml");
    let before = std::fs::read_to_string(path).unwrap();
    let more = config(&stage);
    stage.configure(&format!("{before}{more}"));
    stage
}

fn show(stage: &DaemonStage, run: &str) -> Value {
    stage.json(&["show", run, "--json"])
}

/// Waits until all `n` hooks of a run are done, and returns their results.
fn hooks_of(stage: &DaemonStage, run: &str, n: usize) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let hooks = show(stage, run)["hooks"].as_array().unwrap().clone();
        let is_done = |hook: &Value| hook["standing"] == "done";
        if hooks.len() == n && hooks.iter().all(is_done) {
            return hooks;
        }
        assert!(Instant::now() < deadline, "{hooks:?}");
    }
}

#[test]
fn a_command_hook_runs_once_for_each_start_and_end_however_often_the_daemon_is_killed() {
    let mut bell = None;
    let stage = stage_with(|stage| {
        let hung = bell.insert(Bell::hang(&stage.root()));
        hung.hook("\"started\", \"ended\"")
    });
    let mut bell = bell.unwrap();
    // This run ends before any hook is configured.
    let before = stage.play("say early", &[]);
    assert_exit(&before, 0);
    stage.start_daemon();
    let first = stage.queue("one", "shell sleep 0.3\nsay one", &["--name", "first"]);
    let given = bell.next();
    assert_eq!((&given["transition"], &given["run"]["name"]), (&json!("started"), &json!("first")));
    assert_eq!(given["run"]["run"], json!(first));
    // The run ends while no daemon is running.
    stage.kill_daemon();
    assert_eq!(stage.wait_for_end(&first), Some(0));
    stage.start_daemon();
    let mut rung = bell.until_ended(&first);
    for _ in 0..3 {
        stage.kill_daemon();
        stage.start_daemon();
    }
    // Another call for the first run would have come before the second run ended.
    let second = stage.queue("two", "say two", &[]);
    rung.extend(bell.until_ended(&second));
    let of = |transition: &str, run: &str| (transition.to_owned(), run.to_owned());
    assert_eq!(rung, [of("ended", &first), of("started", &second), of("ended", &second)]);
}

#[test]
fn a_webhook_gets_the_run_and_its_failures_are_reported_and_do_no_harm() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stage = stage_with(|stage| {
        format!(
            "[[hooks]]\non = [\"ended\"]\nurl = \"http://{address}/hook\"\n\
             [[hooks]]\non = [\"ended\"]\ncommand = [\"/bin/sh\", \"-c\", \"echo it broke >&2; exit 3\"]\n\
             [[hooks]]\non = [\"ended\"]\ncommand = [\"{}/no-such-program\"]\n\
             [[hooks]]\non = [\"ended\"]\ncommand = [\"sleep\", \"600\"]\ntimeout = \"200ms\"\n",
            stage.root().display()
        )
    });
    stage.start_daemon();
    let run = stage.queue("one", "say one", &[]);
    let (mut stream, _) = listener.accept().unwrap();
    let body = read_request(&mut stream);
    stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap();
    drop(stream);
    assert_eq!((&body["transition"], &body["run"]["run"]), (&json!("ended"), &json!(run)));
    assert_eq!(body["run"]["state"]["outcome"], "succeeded");
    let hooks = hooks_of(&stage, &run, 1);
    let outcomes = hooks[0]["outcomes"].as_array().unwrap();
    let problems: Vec<&str> = outcomes.iter().map(|it| it["problem"].as_str().unwrap()).collect();
    assert_eq!(problems[0], "it answered 503");
    assert!(problems[1].contains("it broke"), "{problems:?}");
    assert!(problems[2].contains("cannot be started"), "{problems:?}");
    assert!(problems[3].contains("so it was stopped"), "{problems:?}");
    assert_eq!(stage.wait_for_end(&run), Some(0));
    let logs = stage.output(&["daemon", "logs"]);
    let said = String::from_utf8_lossy(&logs.stdout).into_owned();
    assert!(said.contains("a hook failed") && said.contains("it answered 503"), "{said}");
    let shown = stage.output(&["show", &run]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("it answered 503"), "{shown}");
}

fn read_request(stream: &mut impl Read) -> Value {
    let mut lines = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn a_hook_gets_a_question_for_the_user_once_with_its_text() {
    let mut bell = None;
    let stage = stage_with(|stage| {
        let hung = bell.insert(Bell::hang(&stage.root()));
        hung.hook("\"needs_human\", \"ended\"")
    });
    let mut bell = bell.unwrap();
    stage.start_daemon();
    let script = "mcp caretaker ask_human {\"question\":\"Which database?\",\"options\":[\"old\",\"new\"]}\n\
        mcp caretaker ask_human {\"question\":\"And which port?\"}\nsay asked";
    let run = stage.queue("one", script, &[]);
    for text in ["Which database?", "And which port?"] {
        let given = bell.next();
        assert_eq!(
            (&given["transition"], &given["question"]["text"]),
            (&json!("needs_human"), &json!(text))
        );
    }
    let rung = bell.until_ended(&run);
    assert_eq!(rung.len(), 1, "{rung:?}");
    assert_eq!(hooks_of(&stage, &run, 3).len(), 3);
}

#[test]
fn an_invalid_hook_is_refused_with_its_line() {
    let stage =
        stage_with(|_| "[[hooks]]\non = [\"ended\"]\nurl = \"https://example.org/\"\n".to_owned());
    let refused = stage.output(&["daemon", "start"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("curl"), "{}", stderr(&refused));
    stage.configure("");
}

#[test]
fn a_hook_during_which_the_daemon_was_killed_is_shown_as_interrupted_and_not_repeated() {
    let mut bell = None;
    let stage = stage_with(|stage| {
        let hung = bell.insert(Bell::hang(&stage.root()));
        let fifo = stage.root().join("hold");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let hold = format!("exec cat {}", fifo.display());
        let mut hooks = hung.hook("\"ended\"");
        let on = "[[hooks]]\non = [\"ended\"]\n";
        hooks.push_str(&format!("{on}command = [\"/bin/sh\", \"-c\", \"{hold}\"]\n"));
        hooks.push_str(&format!("{on}command = [\"/bin/false\"]\n"));
        hooks
    });
    let mut bell = bell.unwrap();
    stage.start_daemon();
    let first = stage.queue("one", "say one", &[]);
    assert_eq!(bell.until_ended(&first).len(), 1);
    // Opening the FIFO for writing returns once the second hook has it open, so the hook is running.
    let hold = OpenOptions::new().write(true).open(stage.root().join("hold")).unwrap();
    let under_way = &show(&stage, &first)["hooks"][0];
    assert_eq!((&under_way["standing"], &under_way["n_hooks"]), (&json!("under_way"), &json!(3)));
    assert_eq!(under_way["outcomes"].as_array().unwrap().len(), 1, "{under_way}");
    stage.kill_daemon();
    drop(hold);
    stage.start_daemon();
    let interrupted = show(&stage, &first)["hooks"][0].clone();
    assert_eq!(interrupted["standing"], "interrupted");
    assert_eq!(interrupted["outcomes"][0]["is_ok"], true);
    let shown = stage.output(&["show", &first]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("interrupted: the daemon died during 2 hooks"), "{shown}");
    // Another call for the first run would have come before the second run ended.
    let second = stage.queue("two", "say two", &[]);
    let rung = bell.until_ended(&second);
    assert_eq!(rung, [("ended".to_owned(), second.clone())]);
    drop(OpenOptions::new().write(true).open(stage.root().join("hold")).unwrap());
    assert_eq!(hooks_of(&stage, &second, 1)[0]["outcomes"].as_array().unwrap().len(), 3);
}
