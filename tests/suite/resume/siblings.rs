//! Several sessions in one workspace: a run sees its own session, and Caretaker keeps the sessions that it creates.

use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::stage::{Stage, assert_exit};

const CHILD: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";

fn bucket(stage: &Stage) -> PathBuf {
    stage.session_dir("x").parent().unwrap().to_owned()
}

fn names(directory: &PathBuf) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn another_session_of_the_workspace_can_be_neither_seen_nor_changed() {
    let stage = Stage::new();
    let first = stage.begin_session();
    let store = stage.session_dir(&first).join("store.db");
    let before = fs::read(&store).unwrap();
    let script = format!(
        "shell cd $(ls -d ~/.cursor/chats/* | head -n 1); ls > /tmp/seen; cat /tmp/seen; cat {first}/store.db; mkdir -p {first}; echo evil > {first}/store.db; true\nsay done"
    );
    let output = stage.play(&script, &[]);
    assert_exit(&output, 0);
    assert_eq!(fs::read(&store).unwrap(), before);
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(!journal.contains("SQLite format"), "{journal}");
    // Caretaker did not keep the session that the run created under the other's name, because that name is in use.
    let resumed = stage.resume(&first, "say still here", &[]);
    assert_exit(&resumed, 0);
}

#[test]
fn a_sub_agent_is_found_beside_its_parent_afterwards_and_by_the_next_run() {
    let stage = Stage::new();
    let script = format!(
        "shell cd $(ls -d ~/.cursor/chats/* | head -n 1); mkdir {CHILD} && echo one > {CHILD}/store.db; mkdir odd && ln -s /etc/passwd odd/store.db; true\nsay done"
    );
    let output = stage.play(&script, &[]);
    assert_exit(&output, 0);
    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    let child = stage.session_dir(CHILD).join("store.db");
    assert_eq!(fs::read_to_string(&child).unwrap(), "one\n");
    let mut expected = vec![session.clone(), CHILD.to_owned()];
    expected.sort();
    assert_eq!(names(&bucket(&stage)), expected);

    let script = format!(
        "shell cd $(ls -d ~/.cursor/chats/* | head -n 1); echo two >> {CHILD}/store.db\nsay done"
    );
    let resumed = stage.resume(&session, &script, &[]);
    assert_exit(&resumed, 0);
    assert_eq!(fs::read_to_string(&child).unwrap(), "one\ntwo\n");
}

#[test]
fn a_run_that_never_wrote_leaves_and_lists_no_session() {
    let stage = Stage::new();
    let mut agent = stage.caretaker(&["run", "--agent", "simulated", "--detach", "go"]);
    let output = agent.env("SIMULATED_AGENT_MISBEHAVE", "auth-hang").output().unwrap();
    assert_exit(&output, 0);
    let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    stage.wait_until(&run, |line| line["kind"] == "run.released");
    assert_eq!(names(&bucket(&stage)), [stage.session_of(&run)]);
    let listed = stage.output(&["sessions", "ls", "--json"]);
    let listed: Vec<Value> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let session = stage.session_of(&run);
    assert!(!listed.iter().any(|line| line.to_string().contains(&session)), "{listed:?}");
    assert!(stage.output(&["kill", "--now", &run]).status.success());
    assert!(!bucket(&stage).exists());
}

#[test]
fn the_next_run_cleans_up_after_a_killed_one() {
    let stage = Stage::new();
    let script = format!(
        "shell cd $(ls -d ~/.cursor/chats/* | head -n 1); mkdir {CHILD} && echo one > {CHILD}/store.db\nshell sleep 600"
    );
    let run = stage.detach(&script, &[]);
    stage.wait_until(&run, |line| {
        line["kind"] == "agent.tool_started" && line.to_string().contains("sleep 600")
    });
    let shim =
        rustix::process::Pid::from_raw(i32::try_from(stage.shim_pid(&run)).unwrap()).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    stage.output(&["wait", &run]);
    stage.assert_no_survivors("after the kill");
    assert!(!stage.session_dir(CHILD).exists());
    let output = stage.play("say done", &[]);
    assert_exit(&output, 0);
    assert!(stage.session_dir(CHILD).join("store.db").exists());
}
