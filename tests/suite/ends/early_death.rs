//! The shim of a queued run dies after it has taken the workspace and before it has begun the run: another one simply
//! begins.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::process::Process;
use crate::daemon_stage::DaemonStage;

/// A daemon waits for so long before it tries again what failed for a reason that may go away.
const A_RETRY_MS: u64 = 15_000;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Queues a run, and makes its shim wait for its prompt, which it reads when it has its locks and has not begun.
fn queue_with_a_prompt_that_does_not_come(stage: &DaemonStage) -> (String, Vec<u8>) {
    assert!(stage.output(&["queue", "pause"]).status.success());
    let run = stage.queue("one", "say hello", &[]);
    let prompt = stage.runs().join(&run).join("prompt");
    let text = fs::read(&prompt).unwrap();
    fs::remove_file(&prompt).unwrap();
    make_fifo(&prompt);
    (run, text)
}

/// Lets the queue go on, and waits until the shim wants its prompt, which it does not get while this is held.
fn reach_the_window(stage: &DaemonStage, run: &str) -> fs::File {
    assert!(stage.output(&["queue", "resume"]).status.success());
    let prompt = stage.runs().join(run).join("prompt");
    // Opened for writing when there is a reader, and not before.
    let reached = fs::File::options().write(true).open(prompt).unwrap();
    let locks = fs::read_dir(stage.root().join("state/workspaces")).unwrap();
    let notes: String =
        locks.map(|lock| fs::read_to_string(lock.unwrap().path()).unwrap_or_default()).collect();
    assert!(notes.contains(run), "the workspace's lock names the run: {notes}");
    reached
}

/// Kills the shim, and gives the next one what it needs. Returns when it began to: the next shim may be faster than we are.
fn kill_in_the_window(stage: &DaemonStage, run: &str, text: &[u8], reached: fs::File) -> u64 {
    let prompt = stage.runs().join(run).join("prompt");
    let shim = Process::shim(stage, run);
    // Whoever reads the prompt from now on finds all of it.
    let whole = prompt.with_extension("whole");
    fs::write(&whole, text).unwrap();
    fs::rename(&whole, &prompt).unwrap();
    let before_ms = now_ms();
    shim.kill();
    drop(reached);
    before_ms
}

fn check_that_it_simply_began(stage: &DaemonStage, run: &str, killed_ms: u64) {
    assert_eq!(stage.wait_for_end(run), Some(0), "{}", stage.why(run));
    let journal = stage.journal(run);
    let attempts: Vec<_> =
        journal.iter().filter(|entry| entry.line["run"]["kind"] == "attempt").collect();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].line["run"]["number"], json!(1));
    let took = attempts[0].line["at"].as_u64().unwrap() - killed_ms;
    assert!(took < A_RETRY_MS, "it began {took} ms after its first shim had died");
}

#[test]
fn a_queued_run_whose_shim_dies_before_it_begins_is_begun_by_another_at_once() {
    let stage = DaemonStage::new(2);
    let (run, text) = queue_with_a_prompt_that_does_not_come(&stage);
    let reached = reach_the_window(&stage, &run);
    let killed_ms = kill_in_the_window(&stage, &run, &text, reached);
    check_that_it_simply_began(&stage, &run, killed_ms);
}

#[test]
fn a_queued_run_whose_shim_dies_with_the_daemon_is_begun_by_the_next_daemon_at_once() {
    let stage = DaemonStage::new(2);
    let (run, text) = queue_with_a_prompt_that_does_not_come(&stage);
    let reached = reach_the_window(&stage, &run);
    stage.kill_daemon();
    let killed_ms = kill_in_the_window(&stage, &run, &text, reached);
    stage.start_daemon();
    check_that_it_simply_began(&stage, &run, killed_ms);
}
