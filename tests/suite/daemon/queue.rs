//! The queue: when each run starts, what the others wait for, and that no run is lost.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::assert_exit;
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::dice::number_from;

fn fifo(stage: &DaemonStage, workspace: &str) -> std::path::PathBuf {
    let fifo = stage.new_workspace(workspace).join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fifo
}

/// Queues a run that lasts until the test writes to its FIFO.
fn held(stage: &DaemonStage, workspace: &str, flags: &[&str]) -> (String, std::path::PathBuf) {
    let fifo = fifo(stage, workspace);
    let run = stage.queue(workspace, "shell cat hold\nsay done", flags);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    (run, fifo)
}

#[test]
fn many_queued_runs_start_by_priority_and_never_exceed_the_cap() {
    let n_runs = number_from("CARETAKER_QUEUE_RUNS", 24_usize);
    let cap = if n_runs >= 500 { 8 } else { 4 };
    let stage = DaemonStage::new(cap);
    pause(&stage);
    let mut runs: Vec<(String, i64)> = Vec::new();
    for number in 0..n_runs {
        let priority = i64::try_from(number % 3).unwrap() * 50 - 50;
        let workspace = stage.new_workspace(&format!("w{number}"));
        let (status, accepted) = stage.post(
            "/v1/runs",
            &json!({
                "prompt": "```agent\nsay hello\n```",
                "workspace": workspace,
                "agent": "simulated",
                "priority": priority,
                "group": "crowd",
            }),
        );
        assert_eq!(status, 202, "{accepted}");
        assert_eq!(accepted["waiting"], json!({"waits_for": "resumption"}), "{accepted}");
        runs.push((accepted["run"].as_str().unwrap().to_owned(), priority));
    }
    assert_eq!(stage.why(&runs[0].0), "queued: the queue is paused");
    let (_, groups) = stage.get("/v1/groups");
    assert_eq!(groups["groups"][0]["queued"], json!(n_runs), "{groups}");

    assert!(stage.output(&["queue", "resume"]).status.success());
    let last = runs.iter().rfind(|(_, priority)| *priority == -50).unwrap();
    let why = stage.why(&last.0);
    assert!(why.contains(&format!("of at most {cap} runs are under way")), "{why}");
    for (run, _) in &runs {
        assert_eq!(stage.wait_for_end(run), Some(0), "{}", stage.why(run));
    }
    assert!(stage.why(&last.0).starts_with("ended (succeeded)"));

    // The journals alone show when each run began and ended.
    let at = |run: &str, kind: &str| {
        let journal = stage.journal(run);
        let entry = journal.iter().find(|entry| entry.line["run"]["kind"] == kind).unwrap();
        entry.line["at"].as_u64().unwrap()
    };
    let spans: Vec<(u64, u64, i64)> = runs
        .iter()
        .map(|(run, priority)| (at(run, "attempt"), at(run, "ended"), *priority))
        .collect();
    for (began, _, _) in &spans {
        let at_once = spans.iter().filter(|(from, to, _)| from <= began && began < to).count();
        assert!(at_once <= cap as usize, "{at_once} at once");
    }
    // Runs that start together may swap places. Other runs may not.
    let mut by_start = spans.clone();
    by_start.sort_unstable();
    let mut by_priority = spans.clone();
    by_priority.sort_by_key(|(began, _, priority)| (-priority, *began));
    for (place, span) in by_start.iter().enumerate() {
        let due = by_priority.iter().position(|other| other == span).unwrap();
        assert!(place.abs_diff(due) <= cap as usize, "{place} instead of {due}");
    }
}

fn pause(stage: &DaemonStage) {
    let paused = stage.output(&["queue", "pause"]);
    assert_exit(&paused, 0);
}

#[test]
fn every_waiting_run_shows_the_right_reason() {
    let stage = DaemonStage::new(2);
    let (first, first_fifo) = held(&stage, "one", &[]);
    assert!(stage.why(&first).starts_with("running for"), "{}", stage.why(&first));

    let same_place = stage.queue("one", "say hello", &[]);
    assert_eq!(stage.why(&same_place), format!("queued: workspace in use by run {first}"));
    let after = stage.queue("two", "say hello", &["--after", &first]);
    assert_eq!(stage.why(&after), format!("queued: waiting for run {first} to end"));
    let after_ok = stage.queue("three", "say hello", &["--after-ok", &first]);
    let unlucky = stage.queue("four", "say hello", &["--after-ok", &after_ok]);
    let later = stage.queue("five", "say hello", &["--delay", "1h"]);
    assert!(stage.why(&later).contains("starts in 60 min"), "{}", stage.why(&later));

    let ps = stage.output(&["ps"]);
    let ps = String::from_utf8(ps.stdout).unwrap();
    assert!(ps.contains("queued") && ps.contains("workspace in use by"), "{ps}");
    let suspended = stage.output(&["suspend", &later]);
    assert_exit(&suspended, 4);
    assert!(stage.output(&["kill", &later]).status.success());
    assert_eq!(stage.why(&later), "ended (cancelled): it was cancelled before it began");

    // The first run was stopped, so a run that needs its success can never start, and neither can the next in the
    // chain.
    assert!(stage.output(&["kill", "--now", &first]).status.success());
    assert_eq!(stage.wait_for_end(&same_place), Some(0));
    assert_eq!(stage.wait_for_end(&after), Some(0));
    assert_eq!(stage.wait_for_end(&after_ok), Some(1));
    assert_eq!(stage.wait_for_end(&unlucky), Some(1));
    let why = format!("ended (dependency failed): run {first} had to succeed first, and did not");
    assert_eq!(stage.why(&after_ok), why);
    drop(first_fifo);

    // Without a daemon, a queued run waits and reports why.
    pause(&stage);
    let waits = stage.queue("six", "say hello", &["--priority", "7"]);
    assert!(stage.output(&["daemon", "stop"]).status.success());
    assert!(stage.why(&waits).contains("daemon not running"), "{}", stage.why(&waits));
    stage.start_daemon();
    assert_eq!(stage.why(&waits), "queued: the queue is paused");
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&waits), Some(0));
}

#[test]
fn group_caps_hold_and_can_be_changed_and_survive_a_new_daemon() {
    let stage = DaemonStage::new(3);
    assert!(stage.output(&["queue", "cap", "1", "--group", "night"]).status.success());
    let (first, first_fifo) = held(&stage, "one", &["--group", "night"]);
    let second = stage.queue("two", "say hello", &["--group", "night"]);
    let why = "queued: 1 of at most 1 runs of group `night` are under way; next in line";
    assert_eq!(stage.why(&second), why);
    let other = stage.queue("three", "say hello", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0), "other runs do not wait");
    stage.kill_daemon();
    stage.start_daemon();
    assert_eq!(stage.why(&second), why);
    assert!(stage.output(&["queue", "cap", "none", "--group", "night"]).status.success());
    assert_eq!(stage.wait_for_end(&second), Some(0));
    std::fs::write(first_fifo, "go on").unwrap();
    assert_eq!(stage.wait_for_end(&first), Some(0));
}

#[test]
fn a_draining_queue_accepts_nothing_and_finishes_its_runs() {
    let stage = DaemonStage::new(2);
    let (first, first_fifo) = held(&stage, "one", &[]);
    let waiting = stage.queue("one", "say hello", &[]);
    assert!(stage.output(&["queue", "drain"]).status.success());
    let refused = stage.play("say hello", &[]);
    assert_exit(&refused, 4);
    let request = json!({"prompt": "x", "workspace": stage.workspace(), "agent": "simulated"});
    assert_eq!(stage.post("/v1/runs", &request).0, 409);
    std::fs::write(first_fifo, "go on").unwrap();
    assert_eq!(stage.wait_for_end(&first), Some(0));
    assert_eq!(stage.wait_for_end(&waiting), Some(0));
    let direct = stage.play("say hello", &["--direct"]);
    assert_exit(&direct, 0);
}

#[test]
fn an_account_that_is_rate_limited_gets_fewer_runs_and_a_pause() {
    let stage = DaemonStage::new(4);
    let refused = stage.queue("one", "fail resource-exhausted", &["--account", "work"]);
    assert_eq!(stage.wait_for_end(&refused), Some(1));
    let next = stage.queue("two", "say hello", &["--account", "work"]);
    let other = stage.queue("three", "say hello", &["--account", "home"]);
    assert_eq!(stage.wait_for_end(&other), Some(0), "another account is not affected");
    let why = stage.why(&next);
    assert!(why.contains("account `work` is rate limited"), "{why}");
    let (_, queue) = stage.get("/v1/queue");
    assert_eq!(queue["lowered"][0]["cap"], json!(2), "{queue}");
    assert!(stage.output(&["kill", &next]).status.success());
}

#[test]
fn a_full_disk_holds_the_queue_and_says_so() {
    let stage = DaemonStage::without_daemon(2);
    stage.configure("min_free = \"1000000GiB\"\n");
    stage.start_daemon();
    let refused = stage.play("say hello", &[]);
    assert_exit(&refused, 125);
    let run = stage.queue("one", "say hello", &["--queue"]);
    let (_, one) = stage.get(&format!("/v1/runs/{run}"));
    assert_eq!(one["waiting"]["waits_for"], json!("disk_blocked"), "{one}");
    assert!(stage.output(&["kill", &run]).status.success());
}

#[test]
fn no_key_is_on_disk_and_a_run_whose_key_is_gone_waits_for_it() {
    let stage = DaemonStage::new(2);
    let agent = stage.home().join("agent");
    std::fs::write(&agent, "#!/bin/sh\ncat >/dev/null\ntest \"$CURSOR_API_KEY\" = very-secret-key-4711 || exit 9\nprintf '%s\\n' '{\"type\":\"system\",\"subtype\":\"init\"}' '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"\"}'\n").unwrap();
    assert!(Command::new("chmod").arg("755").arg(&agent).status().unwrap().success());
    pause(&stage);
    let queue = |workspace: &str| {
        let workspace = stage.new_workspace(workspace);
        let args = [
            "run",
            "--detach",
            "--agent",
            agent.to_str().unwrap(),
            "-C",
            workspace.to_str().unwrap(),
            "go",
        ];
        let output =
            stage.caretaker(&args).env("CURSOR_API_KEY", "very-secret-key-4711").output().unwrap();
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let lucky = queue("one");
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&lucky), Some(0), "{}", stage.why(&lucky));

    pause(&stage);
    let forgotten = queue("two");
    let found = Command::new("grep")
        .args(["-rl", "very-secret-key-4711"])
        .arg(stage.root().join("state"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is on the disk");
    stage.kill_daemon();
    stage.start_daemon();
    assert!(stage.output(&["queue", "resume"]).status.success());
    // The daemon knows the reason once it has tried to start the run. By the time the other run ends, it has tried.
    let other = stage.queue("three", "say hello", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    assert!(stage.why(&forgotten).contains("CURSOR_API_KEY"), "{}", stage.why(&forgotten));
    // A daemon that starts with the key in its environment can use it.
    let restarted = stage
        .caretaker(&["daemon", "restart"])
        .env("CURSOR_API_KEY", "very-secret-key-4711")
        .output()
        .unwrap();
    assert_exit(&restarted, 0);
    assert_eq!(stage.wait_for_end(&forgotten), Some(0), "{}", stage.why(&forgotten));
}

#[test]
fn an_agent_in_a_sandbox_does_not_see_the_daemons_socket() {
    let stage = DaemonStage::new(2);
    let socket = stage.daemon_note()["socket"].as_str().unwrap().to_owned();
    let directory = std::path::Path::new(&socket).parent().unwrap().to_str().unwrap().to_owned();
    let script = format!(
        "shell ls -a {directory} > seen 2>&1; test -e {socket} && echo there >> seen; true"
    );
    let run = stage.queue("one", &script, &[]);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    let seen = std::fs::read_to_string(stage.home().join("one/seen")).unwrap();
    assert!(!seen.contains("daemon") && !seen.contains("there"), "{seen}");
}

#[test]
fn the_next_daemon_restarts_an_interrupted_run_that_asked_for_it() {
    let stage = DaemonStage::without_daemon(2);
    let fifo = stage.workspace().join("hold");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let run = stage.detach("say first\nshell cat hold", &["--restart"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let shim = stage.shim_pid(&run).to_string();
    assert!(Command::new("kill").args(["-9", &shim]).status().unwrap().success());
    assert_eq!(stage.wait_for_end(&run), Some(5));
    // The daemon finds the run interrupted and continues it, once.
    let mut events = {
        stage.start_daemon();
        stage.follow("/v1/events", Some("1.0")).unwrap()
    };
    let next = events
        .find(|event| event.data["run"] != json!(run) && event.data["event"]["kind"] == "run.ended")
        .unwrap();
    let next = next.data["run"].as_str().unwrap().to_owned();
    assert_eq!(stage.session_of(&next), stage.session_of(&run));
    let runs: Vec<Value> = stage.run_ids().into_iter().map(Value::from).collect();
    assert_eq!(runs, [json!(run), json!(next)]);
}
