//! The lifetime of the process: stdin, signals, background shells.

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use nix::sys::signal::Signal;
use pretty_assertions::assert_eq;

use crate::sandbox::{FORCED, NORMAL, Running, Sandbox, fifo, finish, name, prompt};

#[test]
fn words_are_a_prompt_and_an_open_stdin_keeps_the_process_alive() {
    let sandbox = Sandbox::new();
    let script = prompt("say hello");
    let arguments = [NORMAL, &["Please", &script]].concat();
    let mut running = Running::start(sandbox.agent(&arguments));
    let user = running.wait_for("user");
    assert_eq!(user["message"]["content"][0]["text"], format!("Please {script}").as_str());
    running.wait_for("result/success");
    let stdin = running.child.stdin.take().unwrap();
    assert!(running.child.try_wait().unwrap().is_none(), "it is waiting for stdin");
    drop(stdin);
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn words_with_a_closed_stdin_end_at_once() {
    let sandbox = Sandbox::new();
    let script = prompt("say hello");
    let arguments = [NORMAL, &[&script]].concat();
    assert_eq!(finish(sandbox.agent(&arguments), "ignored").answer(), "hello");
}

#[test]
fn a_prompt_larger_than_a_pipe_is_echoed_whole() {
    let sandbox = Sandbox::new();
    let long = format!("{}\n{}", "x".repeat(200_000), prompt("say done"));
    let finished = finish(sandbox.agent(NORMAL), &long);
    assert_eq!(finished.events()[1]["message"]["content"][0]["text"], long.as_str());
    assert_eq!(finished.answer(), "done");
}

/// Starts a turn that hangs in a shell. Returns it with a pipe that ends when the shell is gone.
fn stuck_in_a_shell(sandbox: &Sandbox) -> (Running, File) {
    let pipe = fifo(&sandbox.workspace());
    let running = Running::script(sandbox, FORCED, "say Hold on.\nshell sleep 300 > fifo\nsay no");
    let shell = File::open(pipe).unwrap();
    (running, shell)
}

#[test]
fn an_interrupt_says_so_and_leaves_nothing_running() {
    let sandbox = Sandbox::new();
    let (mut running, mut shell) = stuck_in_a_shell(&sandbox);
    running.signal(Signal::SIGINT);
    let finished = running.end();
    assert_eq!(finished.code(), Some(130));
    assert_eq!(finished.stderr, "Aborting operation...\n");
    assert_eq!(finished.names().last().unwrap(), "tool_call/started");
    assert!(finished.stdout.ends_with('\n'));
    shell.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_termination_is_silent_and_leaves_nothing_running() {
    let sandbox = Sandbox::new();
    let (mut running, mut shell) = stuck_in_a_shell(&sandbox);
    running.signal(Signal::SIGTERM);
    let finished = running.end();
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(143), ""));
    assert_eq!(finished.names().last().unwrap(), "tool_call/started");
    shell.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn an_interrupted_session_resumes_with_its_history() {
    let sandbox = Sandbox::new();
    let (mut running, _shell) = stuck_in_a_shell(&sandbox);
    let session_id = running.wait_for("system/init")["session_id"].as_str().unwrap().to_owned();
    running.signal(Signal::SIGTERM);
    running.end();
    let resumed = sandbox.play(&[FORCED, &["--resume", &session_id]].concat(), "recall");
    assert!(resumed.answer().contains("sleep 300"), "{}", resumed.answer());
}

#[test]
fn a_reader_that_went_away_ends_the_process() {
    let sandbox = Sandbox::new();
    let mut running = Running::script(&sandbox, NORMAL, "misbehave flood 2000\nsay done");
    running.wait_for("user");
    drop(running.take_stdout());
    assert_eq!(running.child.wait().unwrap().code(), Some(1));
}

#[test]
fn there_is_no_result_while_a_background_shell_lives() {
    let sandbox = Sandbox::new();
    let started = Instant::now();
    let finished = sandbox.play(FORCED, "shell[background] sleep 1\nsay done");
    assert!(started.elapsed().as_millis() >= 1000);
    assert_eq!(finished.answer(), "done");
    let names = finished.names();
    let tail: Vec<&str> = names[names.len() - 3..].iter().map(String::as_str).collect();
    assert_eq!(tail, ["assistant", "system/task_notification", "result/success"]);
}

#[test]
fn background_shells_are_aborted_at_their_limit_and_counted() {
    let sandbox = Sandbox::new();
    let pipe = fifo(&sandbox.workspace());
    let arguments = [FORCED, &["--background-shell-timeout", "0"]].concat();
    let script = "shell[background] sleep 300 > fifo\n\
                  shell until [ -e opened ]; do sleep 0.02; done\nsay done";
    let mut running = Running::script(&sandbox, &arguments, script);
    let mut shell = File::open(pipe).unwrap();
    File::create(sandbox.workspace().join("opened")).unwrap();
    let event = running.wait_for("system/background_shell_timeout");
    assert_eq!((&event["aborted_count"], &event["timeout_ms"]), (&1.into(), &0.into()));
    running.wait_for("result/success");
    shell.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn a_single_turn_does_not_wait_for_background_shells() {
    let sandbox = Sandbox::new();
    let arguments = [FORCED, &["--single-turn"]].concat();
    let finished = sandbox.play(&arguments, "shell[background] sleep 300\nsay done");
    assert_eq!(finished.answer(), "done");
    assert!(!finished.names().iter().any(|name| name == "system/background_shell_timeout"));
}

#[test]
fn a_reader_that_does_not_read_cannot_keep_it_from_ending() {
    let sandbox = Sandbox::new();
    let mut running = Running::script(&sandbox, NORMAL, "misbehave huge-output\nsay done");
    running.wait_for("thinking/delta");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_shell_past_its_time_is_moved_to_the_background() {
    let sandbox = Sandbox::new();
    let finished = sandbox.play(FORCED, "shell[timeout=200ms] sleep 1; echo late\nsay on");
    let events = finished.events();
    let completed = events.iter().find(|event| name(event) == "tool_call/completed").unwrap();
    assert_eq!(completed["tool_call"]["shellToolCall"]["result"]["isBackground"], true);
    assert_eq!(finished.answer(), "on");
}
