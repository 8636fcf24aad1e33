//! The shim of a queued run dies after it has locked the workspace and before it has started the run. Another shim
//! starts the run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::process::Process;
use crate::stage::daemon_stage::DaemonStage;

/// After a failure that may be temporary, a daemon waits this long before it retries.
const A_RETRY_MS: u64 = 15_000;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Queues a run, and makes its shim wait for the prompt. A shim reads the prompt after it has its locks and before it
/// starts the run.
fn queue_with_a_prompt_that_does_not_come(stage: &DaemonStage) -> (String, Vec<u8>) {
    assert!(stage.output(&["queue", "pause"]).status.success());
    let run = stage.queue("one", "say hello", &[]);
    let prompt = stage.runs().join(&run).join("prompt");
    let text = fs::read(&prompt).unwrap();
    fs::remove_file(&prompt).unwrap();
    make_fifo(&prompt);
    (run, text)
}

/// Lets the queue continue, and waits until the shim opens its prompt. The shim gets no prompt until the caller drops
/// the returned file.
fn reach_the_window(stage: &DaemonStage, run: &str) -> fs::File {
    assert!(stage.output(&["queue", "resume"]).status.success());
    let prompt = stage.runs().join(run).join("prompt");
    // Opening a FIFO for writing waits for a reader.
    let reached = fs::File::options().write(true).open(prompt).unwrap();
    let locks = fs::read_dir(stage.root().join("state/workspaces")).unwrap();
    let notes: String =
        locks.map(|lock| fs::read_to_string(lock.unwrap().path()).unwrap_or_default()).collect();
    assert!(notes.contains(run), "the workspace's lock names the run: {notes}");
    reached
}

/// Kills the shim, and gives the next shim the prompt. Returns the time before that, because the next shim may be
/// faster than this test.
fn kill_in_the_window(stage: &DaemonStage, run: &str, text: &[u8], reached: fs::File) -> u64 {
    let prompt = stage.runs().join(run).join("prompt");
    let shim = Process::shim(stage, run);
    // From now on, a reader of the prompt gets all of it.
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
    assert!(took < A_RETRY_MS, "the run started {took} ms after its first shim had died");
}

#[test]
fn when_the_shim_of_a_queued_run_dies_early_another_shim_starts_the_run_immediately() {
    let stage = DaemonStage::new(2);
    let (run, text) = queue_with_a_prompt_that_does_not_come(&stage);
    let reached = reach_the_window(&stage, &run);
    let killed_ms = kill_in_the_window(&stage, &run, &text, reached);
    check_that_it_simply_began(&stage, &run, killed_ms);
}

#[test]
fn when_a_shim_dies_early_with_its_daemon_the_next_daemon_starts_the_run_immediately() {
    let stage = DaemonStage::new(2);
    let (run, text) = queue_with_a_prompt_that_does_not_come(&stage);
    let reached = reach_the_window(&stage, &run);
    stage.kill_daemon();
    let killed_ms = kill_in_the_window(&stage, &run, &text, reached);
    stage.start_daemon();
    check_that_it_simply_began(&stage, &run, killed_ms);
}
