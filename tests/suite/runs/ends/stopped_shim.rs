//! A shim stopped by SIGSTOP: its agent's work still counts, and its run can be ended.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use super::process::Process;
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::make_repository;
use crate::stage::{Stage, assert_exit, stderr};

/// Writes an agent that counts tenths of a second in a file until `enough` exists, and runs `does` each time.
fn counting_agent(stage: &Stage, does: &str) -> String {
    let agent = stage.home().join("counter");
    let program = format!(
        "#!/bin/sh\n\
         echo '{{\"type\":\"system\",\"subtype\":\"init\"}}'\n\
         n=0\n\
         while ! test -e enough; do n=$((n+1)); echo $n > count.new; mv count.new count; {does}; sleep 0.1; done\n\
         echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"\"}}'\n"
    );
    std::fs::write(&agent, program).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    agent.to_str().unwrap().to_owned()
}

fn count(stage: &Stage) -> u64 {
    let text = std::fs::read_to_string(stage.workspace().join("count")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Waits until the agent has counted this many further tenths.
fn let_it_count(stage: &Stage, tenths: u64) {
    let until = count(stage) + tenths;
    let deadline = Instant::now() + Duration::from_secs(60);
    while count(stage) < until {
        assert!(Instant::now() < deadline, "the agent stopped counting");
        std::thread::yield_now();
    }
}

/// Stops the shim for longer than its agent may be silent, which must make no difference.
fn stop_for_longer_than_the_idle_limit(does: &str) {
    let stage = Stage::new();
    let agent = counting_agent(&stage, does);
    let args = ["run", "--agent", &agent, "--detach", "--idle-timeout", "10s", "go"];
    let output = stage.caretaker(&args).env("CURSOR_API_KEY", "any").output().unwrap();
    assert_exit(&output, 0);
    let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    stage.wait_until(&run, |line| line["kind"] == "agent.init");
    let_it_count(&stage, 1);
    let shim = Process::shim(&stage, &run);
    shim.stop();
    let_it_count(&stage, 130);
    shim.signal(Signal::CONT);
    // Long enough to notice a clock that continues from its old value, and shorter than the limit.
    let_it_count(&stage, 5);
    std::fs::write(stage.workspace().join("enough"), "").unwrap();
    let waited = stage.output(&["wait", &run]);
    assert_eq!(waited.status.code(), Some(0), "{}", stage.ended());
    let limits = stage.journal(&run).into_iter().map(|entry| entry.line["run"]["kind"].clone());
    assert_eq!(limits.filter(|kind| kind == "limit_reached").count(), 0);
}

#[test]
fn an_agent_that_writes_while_its_shim_is_stopped_is_not_idle() {
    stop_for_longer_than_the_idle_limit(
        "echo '{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"x\"}'",
    );
}

#[test]
fn time_while_the_shim_is_stopped_does_not_count_as_silence() {
    stop_for_longer_than_the_idle_limit("true");
}

fn start_sleeper(stage: &Stage, flags: &[&str]) -> (String, Process, Process) {
    let run = stage.detach("shell sleep 60", flags);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let (shim, first) = (Process::shim(stage, &run), Process::first(stage, &run));
    (run, shim, first)
}

#[test]
fn kill_now_works_without_the_shim() {
    for flags in [&[] as &[&str], &["--sandbox", "off", "--force"]] {
        let stage = Stage::new();
        let (run, shim, first) = start_sleeper(&stage, flags);
        shim.stop();
        let killed = stage.output(&["kill", "--now", &run]);
        assert_eq!(killed.status.code(), Some(0), "{flags:?}: {}", stderr(&killed));
        assert!(first.has_ended(), "{flags:?}: the sandbox is alive");
        let said = stderr(&killed);
        let expected = format!("(process {}) was stopped; killed the sandbox without it", shim.pid);
        assert!(said.contains(&expected), "{said}");
        stage.assert_no_survivors("a run that was killed without its supervisor");
        assert_eq!(stage.ended()["outcome"], "cancelled", "{flags:?}: {}", stage.ended());
        assert_eq!(stage.output(&["wait", &run]).status.code(), Some(130), "{flags:?}");
        let next = stage.play("say I am the next one.", &[]);
        assert_exit(&next, 0);
    }
}

#[test]
fn the_daemon_stops_a_run_at_once_without_its_shim() {
    let stage = DaemonStage::new(2);
    let run = stage.queue("one", "shell sleep 60", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let (shim, first) = (Process::shim(&stage, &run), Process::first(&stage, &run));
    shim.stop();
    let (status, answer) = stage.post(&format!("/v1/runs/{run}/stop"), &json!({"now": true}));
    shim.signal(Signal::CONT);
    assert_eq!(status, 202, "{answer}");
    assert!(first.has_ended(), "the sandbox is alive");
    assert_eq!(stage.wait_for_end(&run), Some(130), "{}", stage.why(&run));
}

#[test]
fn kill_says_that_it_waits_for_a_stopped_shim() {
    let stage = Stage::new();
    let (run, shim, _first) = start_sleeper(&stage, &[]);
    shim.stop();
    let mut kill = stage.caretaker(&["kill", &run]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(kill.stderr.take().unwrap()).lines().map(Result::unwrap);
    let expected = format!(
        "note: waiting for the supervisor of run {run} (process {}), which is stopped",
        shim.pid
    );
    assert_eq!(said.next(), Some(expected));
    shim.signal(Signal::CONT);
    assert!(kill.wait().unwrap().success(), "{:?}", said.collect::<Vec<_>>());
    assert_eq!(stage.ended()["outcome"], "cancelled");
}

#[test]
fn killing_a_run_whose_shim_stays_stopped_gives_a_hint() {
    let stage = Stage::new();
    let (run, shim, _first) = start_sleeper(&stage, &[]);
    shim.stop();
    let killed = stage.output(&["kill", &run]);
    shim.signal(Signal::CONT);
    assert_exit(&killed, 125);
    let hint = format!("caretaker kill --now {run}");
    assert!(stderr(&killed).contains("is stopped") && stderr(&killed).contains(&hint));
    assert!(stage.output(&["kill", "--now", &run]).status.success());
}

#[test]
fn the_second_signal_to_a_follower_stops_a_run_without_its_stopped_shim() {
    let stage = Stage::new();
    let mut follower = stage.start_play("shell sleep 60", &[]);
    let mut said = BufReader::new(follower.stderr.take().unwrap()).lines().map(Result::unwrap);
    let run = loop {
        if let Some(run) = stage.run_ids().pop() {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let (shim, first) = (Process::shim(&stage, &run), Process::first(&stage, &run));
    shim.stop();
    let viewer = Process::open(i32::try_from(follower.id()).unwrap());
    viewer.signal(Signal::TERM);
    let is_answer = |line: &String| line.contains("stopped") || line.contains("could not stop");
    let waits = format!("(process {}), which is stopped", shim.pid);
    let answer = said.find(is_answer).unwrap_or_default();
    viewer.signal(Signal::TERM);
    let second = said.find(|line| line.contains("killed the sandbox") || is_answer(line));
    shim.signal(Signal::CONT);
    assert!(answer.contains(&waits), "the first stop waits, and says so: {answer}");
    let second = second.unwrap_or_default();
    assert!(second.contains("killed the sandbox without it"), "{second}");
    assert_eq!(follower.wait().unwrap().code(), Some(130));
    assert!(first.has_ended(), "the sandbox is alive");
    assert_eq!(stage.ended()["outcome"], "cancelled", "{}", stage.ended());
}

/// Starts twenty runs of one group, and waits until all are at work.
fn start_group(stage: &Stage) -> Vec<String> {
    make_repository(&stage.workspace());
    let config = stage.home().join(".config/caretaker/config.toml");
    let config = std::fs::read_to_string(config).unwrap();
    stage.configure(&format!("{config}[queue]\ncap = 20\n"));
    let lines = stage.home().join("lines");
    let line = json!({"prompt": "Play this:\n```agent\nshell sleep 600\n```\n"});
    std::fs::write(&lines, format!("{line}\n").repeat(20)).unwrap();
    let lines = lines.to_str().unwrap();
    let flags = ["--detach", "--group", "night", "--each", lines];
    let output = stage.output(&[&["run", "--agent", "simulated"][..], &flags].concat());
    assert_exit(&output, 0);
    let runs: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(runs.len(), 20);
    for run in &runs {
        stage.wait_until(run, |line| line["kind"] == "agent.tool_started");
    }
    runs
}

#[test]
fn kill_signals_all_runs_before_the_first_has_ended() {
    for command in [&["kill"][..], &["suspend"], &["group", "kill", "night"]] {
        let stage = Stage::new();
        let runs = start_group(&stage);
        let shim = Process::shim(&stage, &runs[0]);
        shim.stop();
        let named = if command.len() == 1 { &runs[..] } else { &[] };
        let args: Vec<&str> =
            command.iter().copied().chain(named.iter().map(String::as_str)).collect();
        let kill = stage.caretaker(&args).stderr(Stdio::piped()).spawn().unwrap();
        for run in &runs[1..] {
            stage.wait_until(run, |line| line["kind"] == "run.stop_requested");
        }
        // The command still waits for the stopped shim, but has already signalled all the others.
        shim.signal(Signal::CONT);
        let output = kill.wait_with_output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        stage.assert_no_survivors("a group that was stopped");
    }
}
