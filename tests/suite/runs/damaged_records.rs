//! Runs whose records were cut, emptied, replaced or written by a newer build: every command says the same about them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::{DaemonStage, exchange};
use crate::stage::{Stage, assert_exit, stderr};

/// Plays a run that succeeds, and lets `ps` index it.
fn indexed_run(stage: &Stage) -> String {
    assert_eq!(stage.play("say done", &[]).status.code(), Some(0));
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(state_in_ps(stage, &run), json!("ended"));
    run
}

fn state_in_ps(stage: &Stage, run: &str) -> Value {
    let output = stage.output(&["ps", "--all", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = listed["runs"].as_array().unwrap();
    let found = runs.iter().find(|it| it["run"] == run).unwrap_or_else(|| panic!("{listed}"));
    found["state"]["state"].clone()
}

#[track_caller]
fn assert_lost_everywhere(stage: &Stage, run: &str) {
    assert_eq!(state_in_ps(stage, run), json!("lost"));
    let shown = stage.output(&["show", run, "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["state"]["state"], json!("lost"), "{shown}");
    assert_eq!(stage.output(&["wait", run]).status.code(), Some(5));
}

#[test]
fn every_command_reports_a_run_with_a_cut_journal_as_lost() {
    let stage = Stage::new();
    let run = indexed_run(&stage);
    let text = fs::read_to_string(stage.journal_path(&run)).unwrap();
    let first_lines: String = text.lines().take(4).map(|line| format!("{line}\n")).collect();
    fs::write(stage.journal_path(&run), first_lines).unwrap();
    assert_lost_everywhere(&stage, &run);
}

#[test]
fn every_command_reports_a_run_with_an_emptied_journal_as_lost() {
    let stage = Stage::new();
    let run = indexed_run(&stage);
    fs::write(stage.journal_path(&run), "").unwrap();
    assert_lost_everywhere(&stage, &run);
}

#[test]
fn every_command_reports_a_run_whose_journal_cannot_be_opened_as_lost() {
    let stage = Stage::new();
    let run = indexed_run(&stage);
    fs::remove_file(stage.journal_path(&run)).unwrap();
    fs::create_dir(stage.journal_path(&run)).unwrap();
    assert_lost_everywhere(&stage, &run);
}

#[test]
fn no_command_calls_a_journal_of_a_newer_version_succeeded() {
    let stage = Stage::new();
    let run = indexed_run(&stage);
    let text = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(text.starts_with("{\"journal\":1,"), "{}", text.lines().next().unwrap());
    let newer = text.replacen("{\"journal\":1,", "{\"journal\":2,", 1);
    fs::write(stage.journal_path(&run), newer).unwrap();
    assert_lost_everywhere(&stage, &run);
    let tail = stage.output(&["tail", &run]);
    assert!(!tail.status.success());
    assert!(stderr(&tail).contains("version 2"), "{}", stderr(&tail));
}

#[test]
fn the_diff_of_a_run_without_a_record_names_the_record_and_not_git() {
    let stage = Stage::new();
    let run = indexed_run(&stage);
    fs::write(stage.journal_path(&run), "").unwrap();
    fs::write(stage.runs().join(&run).join("spec.json"), "").unwrap();
    let output = stage.output(&["diff", &run]);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(!said.contains("git is not installed"), "{said}");
    assert!(said.contains("record cannot be read"), "{said}");
}

/// Ways to make a run's record unreadable.
const DAMAGES: [fn(&Stage, &str); 3] = [
    |stage, run| fs::write(stage.journal_path(run), "").unwrap(),
    |stage, run| {
        fs::remove_file(stage.journal_path(run)).unwrap();
        fs::create_dir(stage.journal_path(run)).unwrap();
    },
    make_newer,
];

/// Marks the journal as written by a newer build. A live shim may still write to it.
fn make_newer(stage: &Stage, run: &str) {
    let journal = fs::File::options().read(true).write(true).open(stage.journal_path(run)).unwrap();
    let mut head = [0; 13];
    journal.read_exact_at(&mut head, 0).unwrap();
    assert_eq!(head, *b"{\"journal\":1,");
    journal.write_all_at(b"{\"journal\":2,", 0).unwrap();
}

/// Plays runs that succeed, and makes their records unreadable.
fn unreadable_runs(stage: &Stage, flags: &[&str]) -> Vec<String> {
    for damage in DAMAGES {
        assert_eq!(stage.play("say done", flags).status.code(), Some(0));
        damage(stage, &stage.run_ids().pop().unwrap());
    }
    stage.run_ids()
}

fn kill_shim(stage: &Stage, run: &str) {
    let pid = stage.shim_pid(run).to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
}

#[test]
fn resume_interrupted_skips_a_run_with_an_unreadable_record() {
    let stage = Stage::new();
    for flags in [&[] as &[&str], &["--restart"]] {
        let before = unreadable_runs(&stage, flags);
        let resumed = stage.output(&["resume", "--interrupted", "--agent", "simulated"]);
        assert_exit(&resumed, 0);
        assert!(stderr(&resumed).contains("no interrupted sessions"), "{}", stderr(&resumed));
        assert_eq!(stage.run_ids(), before, "a run was started");
        let ps = stage.output(&["ps"]);
        assert!(!stderr(&ps).contains("resume --interrupted"), "{}", stderr(&ps));
    }
}

#[test]
fn wait_waits_for_a_live_run_with_a_journal_of_a_newer_version() {
    let stage = Stage::new();
    let run = stage.detach("say first\nshell sleep 600", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    make_newer(&stage, &run);
    assert_eq!(state_in_ps(&stage, &run), json!("running"));
    let waited = stage.output(&["wait", &run, "--timeout", "300ms"]);
    assert_exit(&waited, 75);

    kill_shim(&stage, &run);
    assert_eq!(stage.output(&["wait", &run]).status.code(), Some(5));
}

#[test]
fn the_daemon_answers_while_a_client_follows_runs_that_cannot_be_read() {
    let stage = DaemonStage::without_daemon(2);
    for damage in 0..3 {
        let run = indexed_run(&stage);
        let journal = stage.journal_path(&run);
        let text = fs::read_to_string(&journal).unwrap();
        match damage {
            0 => fs::write(&journal, "").unwrap(),
            1 => fs::write(&journal, text.replacen("\"journal\":1", "\"journal\":2", 1)).unwrap(),
            _ => {
                fs::remove_file(&journal).unwrap();
                fs::create_dir(&journal).unwrap();
            }
        }
    }
    stage.start_daemon();
    let _follower = stage.follow("/v1/events", Some("1.0")).unwrap();
    let patient = || {
        let stream = stage.connect().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    for _ in 0..3 {
        assert_eq!(exchange(patient(), "GET", "/v1/version", &[], "").0, 200);
    }
}
