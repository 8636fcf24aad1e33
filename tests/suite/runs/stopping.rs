//! How runs end: misbehaving agents, time limits, `kill`, signals, and a shim that dies.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr};

fn kill(signal: &str, pid: u64) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_agent_that_never_stops_printing_is_stopped_by_the_clock_and_by_kill() {
    let stage = Stage::new();
    let agent = stage.home().join("printer");
    std::fs::write(&agent, "#!/bin/sh\ntrap '' INT TERM\necho '{\"type\":\"system\",\"subtype\":\"init\"}'\nexec yes '{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"x\"}'\n").unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.to_str().unwrap();
    let start = |flags: &[&str]| {
        let args = [&["run", "--agent", agent, "go"], flags].concat();
        stage.caretaker(&args).env("CURSOR_API_KEY", "any").output().unwrap()
    };
    // The journal is large, and `wait` reads only its end.
    let outcome = || stage.output(&["wait", "-"]).status.code();
    let run = String::from_utf8(start(&["--detach", "--timeout", "1s"]).stdout).unwrap();
    assert!(!run.is_empty());
    assert_eq!(outcome(), Some(124));

    let run = String::from_utf8(start(&["--detach"]).stdout).unwrap().trim().to_owned();
    stage.wait_until(&run, |line| line["kind"] == "agent.thinking_delta");
    let killed = stage.output(&["kill", "--now", &run]);
    assert_exit(&killed, 0);
    assert_eq!(outcome(), Some(130));
    stage.assert_no_survivors("the printer");
}

/// Each misbehaviour of an agent: script, fields of the outcome, exit code.
fn misbehaviours() -> Vec<(&'static str, Value, i32)> {
    let failed = |class: &str| json!({"outcome":"failed","class":class});
    let succeeded = || json!({"outcome":"succeeded"});
    vec![
        ("misbehave linger\nsay done", succeeded(), 0),
        ("misbehave orphan-worker\nsay done", succeeded(), 0),
        ("misbehave unkillable-child\nsay done", succeeded(), 0),
        ("misbehave noise\nsay done", succeeded(), 0),
        ("misbehave split-utf8\nsay dönë — 漢字", succeeded(), 0),
        ("misbehave stdout-prefix\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave unknown-events\nsay done", succeeded(), 0),
        ("misbehave completed-without-started\nsay done", succeeded(), 0),
        ("misbehave reconnect\nsay done", succeeded(), 0),
        ("misbehave long-answer\nsay done", succeeded(), 0),
        ("misbehave giant-line 20\nsay done", succeeded(), 0),
        ("misbehave stderr-flood 8\nsay done", succeeded(), 0),
        ("misbehave flood 2000\nsay done", succeeded(), 0),
        ("misbehave no-result\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave background-shell 600\nsay done", json!({"outcome":"unknown"}), 5),
        ("misbehave auth-failure", failed("auth"), 77),
        ("misbehave config-race\nsay done", failed("config_race"), 1),
        ("misbehave model-refused\nsay done", failed("bad_model"), 1),
        ("misbehave reconnect-then-fail\nsay done", failed("network"), 1),
        ("fail resource-exhausted", failed("rate_limited"), 1),
        ("fail usage-limit", failed("usage_limit"), 1),
        ("misbehave kill-mid-line\nsay done", failed("killed"), 1),
        ("misbehave kill-mid-tool\nshell sleep 5", failed("killed"), 1),
        ("misbehave kill-before-first-root\nsay done", failed("killed"), 1),
        ("misbehave crash-mid-tool\nshell sleep 5", failed("other"), 1),
        ("exit 7", failed("other"), 1),
    ]
}

#[test]
fn every_misbehaviour_ends_with_its_outcome_a_sentence_and_no_survivor() {
    let stage = Stage::new();
    for (script, expected, exit_code) in misbehaviours() {
        let output = stage.play(script, &[]);
        let ended = stage.ended();
        assert_eq!(output.status.code(), Some(exit_code), "{script}: {ended} {}", stderr(&output));
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&ended[key], value, "{script}: {ended}");
        }
        let show = stage.output(&["show", "-"]);
        let sentence = ended["why"].as_str().unwrap();
        assert!(!sentence.is_empty());
        let is_shown = String::from_utf8_lossy(&show.stdout).contains(sentence);
        assert!(is_shown || ended["outcome"] == "succeeded", "{script}");
        stage.assert_no_survivors(script);
    }
}

#[test]
fn each_time_limit_has_its_own_outcome() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\n[limits]\nstartup = \"1s\"\nidle = \"1s\"\ntool = \"2s\"\n[stop]\nterm_after = \"200ms\"\nkill_after = \"200ms\"\n");
    for (script, flags, limit) in [
        ("misbehave auth-hang", &[] as &[&str], "startup"),
        ("say a\nshell true\nmisbehave silence 30\nsay b", &[], "idle"),
        ("shell sleep 30", &[], "tool"),
        ("misbehave ignore-term\nshell sleep 30", &["--timeout", "1s"], "wall_clock"),
    ] {
        let output = stage.play(script, flags);
        let ended = stage.ended();
        assert_eq!(output.status.code(), Some(124), "{script}: {ended} {}", stderr(&output));
        assert_eq!(
            (&ended["outcome"], &ended["limit"]["limit"]),
            (&json!("timed_out"), &json!(limit)),
            "{ended}"
        );
        stage.assert_no_survivors(script);
    }
}

#[test]
fn kill_stops_a_run_gracefully_and_kill_now_at_once() {
    let stage = Stage::new();
    let started = |line: &Value| line["kind"] == "agent.tool_started";
    let run = stage.detach("shell sleep 60", &[]);
    stage.wait_for(&run, started);
    let output = stage.output(&["kill", &run]);
    assert_exit(&output, 0);
    let ended = stage.ended();
    assert_eq!((&ended["outcome"], &ended["exit_code"]), (&json!("cancelled"), &json!(130)));

    let run = stage.detach("misbehave ignore-term\nshell sleep 60", &[]);
    stage.wait_for(&run, started);
    assert!(stage.output(&["kill", "--now", &run]).status.success());
    assert_eq!(stage.ended()["outcome"], "cancelled");
    let waited = stage.output(&["wait", &run]);
    assert_eq!(waited.status.code(), Some(130));
    stage.assert_no_survivors("after the run");
}

#[test]
fn without_a_terminal_a_signal_to_the_foreground_stops_the_run() {
    let stage = Stage::new();
    let child = stage.start_play("shell sleep 60", &["--name", "foreground"]);
    let run = loop {
        if let Some(run) = stage.run_ids().pop() {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_for(&run, |line| line["kind"] == "agent.tool_started");
    kill("-TERM", u64::from(child.id()));
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 130);
    assert_eq!(stage.ended()["outcome"], "cancelled");
}

#[test]
fn after_kill_9_of_the_shim_nothing_lives_nothing_is_lost_and_the_session_can_be_used_again() {
    let stage = Stage::new();
    let session = &stage.begin_session();
    let run = stage.detach("say Before.\nshell sleep 60", &["--session", session]);
    let before = stage.wait_for(&run, |line| line["kind"] == "agent.tool_started");
    kill("-KILL", stage.shim_pid(&run));
    // `wait` returns when no process holds the run.
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(5));

    let tail = stage.output(&["tail", &run, "--json"]);
    let seen: Vec<Value> = String::from_utf8(tail.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let numbers: Vec<u64> = seen.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert!(numbers.len() >= before.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    stage.assert_no_survivors("after the run");
    assert!(stage.workspace().join(".cursor").is_dir(), "the dead shim left its mount point");

    let output = stage.play("recall", &["--session", session]);
    assert_exit(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("Before."), "the session remembers");
    assert!(
        !stage.workspace().join(".cursor").exists(),
        "the next run cleaned up after the dead one"
    );
    let ps = stage.output(&["ps", "--all", "--json"]);
    assert!(
        String::from_utf8_lossy(&ps.stdout).contains("lost"),
        "{}",
        String::from_utf8_lossy(&ps.stdout)
    );
}

#[test]
fn the_agent_of_a_shim_that_is_killed_before_the_release_never_runs() {
    let stage = Stage::new();
    // The test kills the shim at many moments during its start. If the shim did not reach `released`, the agent must
    // not have run.
    for delay_steps in 0..12 {
        let marker = format!("ran-{delay_steps}");
        let run = stage.detach(&format!("shell touch {marker}\nshell sleep 60"), &[]);
        for _ in 0..delay_steps * 4000 {
            std::hint::spin_loop();
        }
        let pid = stage.shim_pid(&run);
        Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        let waited = stage.output(&["wait", &run]);
        assert!(waited.status.signal().is_none());
        let was_released =
            stage.journal(&run).iter().any(|entry| entry.line["run"]["kind"] == "released");
        let has_run = stage.workspace().join(&marker).exists();
        assert!(was_released || !has_run, "the agent ran before its release");
        stage.assert_no_survivors("after the run");
    }
}

#[test]
fn json_output_names_the_run_even_if_its_shim_dies_before_it_answers() {
    let stage = Stage::new();
    let prompt = stage.root().join("prompt");
    assert!(Command::new("mkfifo").arg(&prompt).status().unwrap().success());
    let flags = ["run", "--agent", "simulated", "--json", "-f", prompt.to_str().unwrap()];
    let mut command = stage.caretaker(&flags);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command waits for its prompt. Meanwhile the test kills the shim that it has started.
    let mut prompt = std::fs::OpenOptions::new().write(true).open(&prompt).unwrap();
    let processes = stage.processes().into_iter();
    for (shim, _) in processes.filter(|(_, command)| command.contains(" shim ")) {
        Command::new("kill").args(["-KILL", &shim.to_string()]).status().unwrap();
    }
    prompt.write_all(b"hello").unwrap();
    drop(prompt);
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 125);
    let printed = String::from_utf8(output.stdout).unwrap();
    let first: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "run.created", "{printed}");
}
