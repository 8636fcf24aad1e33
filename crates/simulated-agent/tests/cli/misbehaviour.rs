//! Each misbehaviour does what its line in `--help-scenarios` says.

use std::fs::{self, File};
use std::io::{BufRead, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use simulated_agent::session_store::CrashPoint;
use uuid::Uuid;

use crate::sandbox::{FORCED, Finished, NORMAL, Running, Sandbox, fifo, finish, name, prompt};

/// Plays a script with this misbehaviour in it.
fn misbehave(what: &str) -> Finished {
    Sandbox::new().play(FORCED, &format!("say Before.\nmisbehave {what}\nls\nsay After."))
}

/// Plays a script with this misbehaviour in the environment.
fn misbehave_from_outside(what: &str) -> Finished {
    let sandbox = Sandbox::new();
    let mut command = sandbox.agent(FORCED);
    command.env("SIMULATED_AGENT_MISBEHAVE", what);
    finish(command, &prompt("say Hello."))
}

fn is_json(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok()
}

#[test]
fn before_the_first_line_it_may_fail_in_three_ways() {
    for (what, beginning) in [
        ("auth-failure", "Error: Authentication required."),
        ("model-refused", "Cannot use this model: auto. Available models: "),
        ("config-race", "Error: ENOENT: no such file or directory, rename '"),
    ] {
        for finished in [misbehave(what), misbehave_from_outside(what)] {
            assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""), "{what}");
            assert!(finished.stderr.starts_with(beginning), "{}", finished.stderr);
        }
    }
}

#[test]
fn an_agent_that_hangs_before_the_first_line_still_heeds_signals() {
    let sandbox = Sandbox::new();
    let mut running = Running::script(&sandbox, FORCED, "misbehave auth-hang");
    let (sender, receiver) = mpsc::channel();
    let mut stdout = running.take_stdout();
    thread::spawn(move || sender.send(stdout.read_line(&mut String::new()).unwrap()));
    let silent = receiver.recv_timeout(Duration::from_millis(700));
    assert_eq!(silent, Err(mpsc::RecvTimeoutError::Timeout));
    running.signal(Signal::SIGTERM);
    assert_eq!(receiver.recv().unwrap(), 0);
    assert_eq!(running.child.wait().unwrap().code(), Some(143));
}

#[test]
fn silence_and_lingering_take_their_time() {
    let sandbox = Sandbox::new();
    let mut running =
        Running::script(&sandbox, NORMAL, "misbehave silence 1\nmisbehave linger 1\nsay ok");
    running.wait_for("user");
    let silent = Instant::now();
    running.wait_for("assistant");
    assert!(silent.elapsed() >= Duration::from_millis(900));
    running.wait_for("result/success");
    let lingering = Instant::now();
    assert_eq!(running.end().code(), Some(0));
    assert!(lingering.elapsed() >= Duration::from_millis(900));
}

#[test]
fn a_deaf_agent_goes_on() {
    let sandbox = Sandbox::new();
    let script = "misbehave ignore-term\nthink ready\nwait 500ms\nsay Still here.";
    let mut running = Running::script(&sandbox, NORMAL, script);
    running.wait_for("thinking/completed");
    running.signal(Signal::SIGTERM);
    running.signal(Signal::SIGINT);
    let finished = running.end();
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    assert!(finished.stdout.contains("Still here."));
}

/// Finds the process that logged its pid, and ends it.
fn pid_in_the_log(sandbox: &Sandbox) -> Pid {
    let log = fs::read_to_string(sandbox.project().join("worker.log")).unwrap();
    Pid::from_raw(log.trim().rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn an_orphaned_worker_outlives_the_agent_in_a_session_of_its_own() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.play(FORCED, "misbehave orphan-worker\nsay ok").answer(), "ok");
    UnixStream::connect(sandbox.project().join("worker.sock")).unwrap();
    let pid = pid_in_the_log(&sandbox);
    assert_eq!(nix::unistd::getsid(Some(pid)), Ok(pid));
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(command.contains("worker-server"), "{command}");
    kill(pid, Signal::SIGTERM).unwrap();
}

#[test]
fn an_unkillable_child_holds_the_pipe_and_blocks_every_signal() {
    let sandbox = Sandbox::new();
    let mut running = Running::script(&sandbox, FORCED, "misbehave unkillable-child\nsay ok");
    running.wait_for("result/success");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    let pid = pid_in_the_log(&sandbox);
    assert_eq!(nix::unistd::getsid(Some(pid)), Ok(pid));
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        assert_ne!(blocked & (1 << (signal as u64 - 1)), 0, "{signal}");
    }
    kill(pid, Signal::SIGKILL).unwrap();
    assert_eq!(running.stdout.read_line(&mut String::new()).unwrap(), 0, "now the pipe ends");
}

#[test]
fn a_background_shell_withholds_the_result() {
    let sandbox = Sandbox::new();
    let started = Instant::now();
    let finished = sandbox.play(FORCED, "misbehave background-shell 1\nsay ok");
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!(finished.answer(), "ok");
}

#[test]
fn a_giant_line_is_one_line_of_json() {
    let finished = misbehave("giant-line 3");
    let longest = finished.stdout.lines().max_by_key(|line| line.len()).unwrap();
    assert!(longest.len() > 3 << 20 && is_json(longest));
    assert_eq!(finished.answer(), "Before.After.");
}

#[test]
fn huge_output_is_as_much_as_was_asked_for() {
    let finished = misbehave("huge-output 10000000");
    assert!((10_000_000..11_000_000).contains(&finished.stdout.len()));
    assert_eq!(finished.answer(), "Before.After.");
}

#[test]
fn a_flood_keeps_its_rate() {
    let started = Instant::now();
    let finished = misbehave("flood 500");
    assert!(started.elapsed() >= Duration::from_millis(2_900));
    assert_eq!(finished.names().iter().filter(|name| *name == "thinking/delta").count(), 1_500);
}

#[test]
fn a_long_answer_is_in_the_result() {
    assert!(misbehave("long-answer").answer().len() >= 235_000);
}

#[test]
fn a_flooded_stderr_does_not_touch_the_stream() {
    let finished = misbehave("stderr-flood 1");
    assert!(finished.stderr.len() >= 1 << 20);
    assert_eq!(finished.answer(), "Before.After.");
}

#[test]
fn characters_may_arrive_in_halves() {
    let sandbox = Sandbox::new();
    let mut running = Running::script(&sandbox, NORMAL, "misbehave split-utf8\nsay Grüße.");
    let mut n_halves = 0;
    let mut all = Vec::new();
    loop {
        let read = running.stdout.fill_buf().unwrap();
        if read.is_empty() {
            break;
        }
        n_halves += usize::from(std::str::from_utf8(read).is_err());
        all.extend_from_slice(read);
        let length = read.len();
        running.stdout.consume(length);
    }
    assert!(n_halves > 0);
    assert!(String::from_utf8(all).unwrap().lines().all(is_json));
}

#[test]
fn noise_is_between_the_lines_and_a_prefix_before_them() {
    let noisy = misbehave("noise");
    assert!(noisy.stdout.lines().any(|line| line.starts_with("(node:")));
    assert!(noisy.stdout.lines().any(|line| line.contains("\"type\":\"result\"")));
    let prefixed = misbehave("stdout-prefix");
    let last = prefixed.stdout.lines().last().unwrap();
    assert!(is_json(last.strip_prefix("stdout: ").unwrap()));
}

#[test]
fn unknown_events_are_json_and_do_not_disturb_the_rest() {
    let finished = misbehave("unknown-events");
    assert_eq!(finished.answer(), "Before.After.");
    for unknown in
        ["\"telemetry\"", "\"weather\"", "\"teleportToolCall\"", "\"mood\"", "\"paused\""]
    {
        assert!(finished.stdout.contains(unknown), "{unknown}");
    }
}

#[test]
fn a_call_that_never_started_may_complete() {
    let names = misbehave("completed-without-started").names();
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!(count("tool_call/completed"), count("tool_call/started") + 1);
}

#[test]
fn a_connection_may_be_lost_and_found() {
    let finished = misbehave("reconnect");
    assert_eq!(finished.answer(), "Before.After.");
    let names = finished.names();
    let found = ["connection/reconnecting", "retry/starting", "connection/reconnected"];
    assert!(names.windows(3).any(|window| window == found), "{names:?}");
}

#[test]
fn a_lost_connection_is_tried_three_times() {
    let finished = misbehave("reconnect-then-fail");
    assert_eq!((finished.code(), finished.has_result()), (Some(1), false));
    let attempts: Vec<(String, Value, Value)> = finished.events()[2..]
        .iter()
        .map(|event| (name(event), event["attempt"].clone(), event["is_resume"].clone()))
        .collect();
    // As in captures, each attempt reconnects, and none of them resumes anything.
    let expected = [1, 2, 3].into_iter().flat_map(|attempt| {
        [
            ("connection/reconnecting".to_owned(), json!(attempt), Value::Null),
            ("retry/starting".to_owned(), json!(attempt), json!(false)),
            ("connection/reconnected".to_owned(), Value::Null, Value::Null),
        ]
    });
    assert_eq!(attempts, expected.collect::<Vec<_>>());
    assert!(finished.stderr.contains("Connection lost, reconnecting to https://"));
    assert!(finished.stderr.contains("Retry attempt 3...\nConnectError: [unavailable] "));
}

#[test]
fn half_a_line_may_be_the_last() {
    let finished = misbehave("kill-mid-line 1");
    assert_eq!(finished.signal(), Some(9));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let (last, whole) = lines.split_last().unwrap();
    assert!(whole.iter().all(|line| is_json(line)) && !is_json(last));
    assert!(!finished.stdout.ends_with('\n'));
}

#[test]
fn a_tool_may_outlive_the_agent_that_started_it() {
    for (what, code, signal) in
        [("crash-mid-tool", Some(1), None), ("kill-mid-tool", None, Some(9))]
    {
        let sandbox = Sandbox::new();
        let pipe = fifo(&sandbox.workspace());
        let script = format!("misbehave {what}\nshell sleep 1 > fifo\nsay never");
        let mut running = Running::script(&sandbox, FORCED, &script);
        let mut shell = File::open(pipe).unwrap();
        let finished = running.end();
        assert_eq!((finished.code(), finished.signal()), (code, signal), "{what}");
        assert_eq!(finished.names().last().unwrap(), "tool_call/started");
        assert_eq!(finished.stderr.contains("TypeError"), code.is_some());
        shell.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn it_may_exit_with_zero_and_without_a_result() {
    let finished = misbehave("no-result");
    assert_eq!((finished.code(), finished.has_result()), (Some(0), false));
    assert_eq!(name(finished.events().last().unwrap()), "assistant");
}

#[test]
fn it_can_die_at_every_crash_point_and_the_session_still_resumes() {
    let sandbox = Sandbox::new();
    for point in CrashPoint::names() {
        let id = Uuid::new_v4().to_string();
        let arguments = [FORCED, &["--resume", &id]].concat();
        if CrashPoint::from_name(&point) == Some(CrashPoint::AfterUserMessage) {
            sandbox.play(&arguments, "say a turn before");
        }
        let script = format!("misbehave kill-at {point}\nshell true\ncompact 1ms\nsay never");
        let finished = sandbox.play(&arguments, &script);
        assert_eq!(finished.signal(), Some(9), "{point}");
        assert!(!finished.has_result(), "{point}");
        let resumed = sandbox.play(&arguments, "say alive");
        assert_eq!(resumed.answer(), "alive", "{point}");
    }
}
