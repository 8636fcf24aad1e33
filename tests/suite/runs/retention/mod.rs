//! `gc` deletes old runs on request, and keeps everything that is still needed.

mod window;

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

fn play(stage: &Stage, script: &str, flags: &[&str]) -> String {
    let output = stage.play(script, flags);
    assert_exit(&output, 0);
    stage.run_ids().pop().unwrap()
}

fn gc(stage: &Stage, flags: &[&str]) -> Value {
    let output = stage.output(&[&["gc", "--json"], flags].concat());
    assert_exit(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn runs(report: &Value, list: &str) -> Vec<String> {
    let runs = report[list].as_array().unwrap();
    runs.iter().map(|it| it["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn gc_removes_nothing_without_yes_and_keeps_pinned_live_and_interrupted_runs() {
    let stage = Stage::new();
    let old = play(&stage, "say one", &[]);
    let pinned = play(&stage, "say two", &[]);
    assert!(stage.output(&["pin", &pinned]).status.success());
    let suspended = stage.detach("shell sleep 600", &[]);
    stage.wait_until(&suspended, |line| line["kind"] == "agent.tool_started");
    assert!(stage.output(&["suspend", &suspended]).status.success());
    let live = stage.detach("shell sleep 600", &[]);
    stage.wait_until(&live, |line| line["kind"] == "agent.tool_started");

    let aimless = stage.output(&["gc"]);
    assert_eq!(aimless.status.code(), Some(2));

    let all = ["--older-than", "1ms"];
    let would = gc(&stage, &all);
    assert_eq!((&would["is_done"], runs(&would, "runs")), (&json!(false), vec![old.clone()]));
    assert_eq!(runs(&would, "kept"), [pinned.clone(), suspended.clone(), live.clone()]);
    let needs: Vec<&Value> =
        would["kept"].as_array().unwrap().iter().map(|it| &it["need"]).collect();
    assert_eq!(needs, [&json!("pinned"), &json!("session"), &json!("unfinished")]);
    assert_eq!(stage.run_ids().len(), 4, "a dry run deletes nothing");

    let done = gc(&stage, &[&all[..], &["--yes"]].concat());
    assert_eq!((&done["is_done"], runs(&done, "runs")), (&json!(true), vec![old.clone()]));
    assert!(done["bytes"].as_u64().unwrap() > 0);
    assert_eq!(stage.run_ids(), [pinned.clone(), suspended, live.clone()]);
    assert_eq!(stage.output(&["show", &old]).status.code(), Some(3));

    assert!(stage.output(&["kill", "--now", &live]).status.success());
    assert!(stage.output(&["unpin", &pinned]).status.success());
    let done = gc(&stage, &[&all[..], &["--yes"]].concat());
    assert_eq!(runs(&done, "runs"), [pinned, live]);
}

#[test]
fn a_run_that_was_lost_in_the_middle_of_a_turn_stays_for_its_session() {
    let stage = Stage::new();
    let lost = stage.detach("shell sleep 600", &[]);
    stage.wait_until(&lost, |line| line["kind"] == "agent.tool_started");
    let shim = Pid::from_raw(i32::try_from(stage.shim_pid(&lost)).unwrap());
    kill(shim, Signal::SIGKILL).unwrap();
    assert_eq!(stage.output(&["wait", &lost]).status.code(), Some(5));
    let all = ["--keep", "0", "--yes"];
    assert_eq!(runs(&gc(&stage, &all), "kept"), vec![lost.clone()], "the run can be resumed");
}

#[test]
fn a_run_that_was_lost_before_its_agent_wrote_anything_is_removed() {
    let stage = Stage::new();
    let mut agent = stage.caretaker(&["run", "--agent", "simulated", "--detach", "go"]);
    let output = agent.env("SIMULATED_AGENT_MISBEHAVE", "auth-hang").output().unwrap();
    assert_exit(&output, 0);
    let lost = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    stage.wait_until(&lost, |line| line["kind"] == "run.released");
    let session = stage.session_of(&lost);
    kill(Pid::from_raw(i32::try_from(stage.shim_pid(&lost)).unwrap()), Signal::SIGKILL).unwrap();
    assert_eq!(stage.output(&["wait", &lost]).status.code(), Some(5));
    stage.assert_no_survivors("after the kill");
    assert!(!stage.session_dir(&session).join("store.db").exists());

    let ps = stage.output(&["ps"]);
    assert!(String::from_utf8_lossy(&ps.stdout).contains("lost"), "{}", stderr(&ps));
    assert!(!stderr(&ps).contains("resume --interrupted"), "{}", stderr(&ps));
    assert!(stderr(&ps).contains("its session cannot be resumed"), "{}", stderr(&ps));
    let resumed = stage.output(&["resume", "--interrupted", "go on"]);
    assert_exit(&resumed, 6);
    assert_eq!(runs(&gc(&stage, &["--keep", "0", "--yes"]), "runs"), [lost]);
}

#[test]
fn a_gc_rule_of_zero_removes_all_runs() {
    for flags in [["--keep", "0"], ["--older-than", "0s"], ["--max-size", "0"]] {
        let stage = Stage::new();
        let run = play(&stage, "say one", &[]);
        assert_eq!(runs(&gc(&stage, &flags), "runs"), [run], "{flags:?}");
    }
}

#[test]
fn a_conversation_outlives_its_runs_and_a_continued_one_does_not_look_interrupted() {
    let stage = Stage::new();
    let first = stage.detach("shell sleep 600", &[]);
    stage.wait_until(&first, |line| line["kind"] == "agent.tool_started");
    assert!(stage.output(&["suspend", &first]).status.success());
    let session = stage.session_of(&first);
    let resumed = stage.resume(&session, "say on", &[]);
    assert_exit(&resumed, 0);
    let second = stage.run_ids().pop().unwrap();
    assert!(stage.output(&["pin", &first]).status.success());
    let kept = gc(&stage, &["--older-than", "1ms", "--yes"]);
    assert_eq!(runs(&kept, "runs"), [""; 0]);
    assert_eq!(runs(&kept, "kept"), [first.clone(), second]);
    assert!(stage.output(&["unpin", &first]).status.success());
    let gone = gc(&stage, &["--older-than", "1ms", "--yes"]);
    assert_eq!(runs(&gone, "runs").len(), 2);
    let again = stage.resume(&session, "say again", &[]);
    assert_exit(&again, 0);
}

#[test]
fn a_worktree_is_removed_with_its_run_only_after_everything_was_applied() {
    let stage = Stage::new();
    let checkout = stage.workspace();
    git(&checkout, &["init", "-q", "-b", "main"]);
    fs::write(checkout.join("plain"), "plain\n").unwrap();
    git(&checkout, &["add", "."]);
    git(&checkout, &["commit", "-qm", "one"]);
    let idle = play(&stage, "say nothing changed", &["--worktree"]);
    let busy = play(&stage, "shell echo new > new\nsay done", &["--worktree"]);
    let report = gc(&stage, &["--older-than", "1ms", "--yes"]);
    assert_eq!((runs(&report, "runs"), runs(&report, "kept")), (vec![idle], vec![busy.clone()]));
    assert_eq!(report["kept"][0]["need"], "worktree");
    assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 2);
    let applied = stage.output(&["apply", &busy]);
    assert_exit(&applied, 0);
    let report = gc(&stage, &["--older-than", "1ms", "--yes"]);
    assert_eq!(runs(&report, "runs"), [busy]);
    assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_to_string(checkout.join("new")).unwrap(), "new\n");
}

#[test]
fn a_run_that_another_run_waits_for_stays_with_a_live_daemon_too() {
    let stage = DaemonStage::new(2);
    let first = stage.queue("one", "say one", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let other = stage.queue("two", "say two", &[]);
    assert_eq!(stage.wait_for_end(&other), Some(0));
    assert!(stage.output(&["queue", "pause"]).status.success());
    let follower = stage.queue("three", "say three", &["--after-ok", &first]);
    let report = gc(&stage, &["--keep", "1", "--yes"]);
    assert_eq!((runs(&report, "runs"), runs(&report, "kept")), (vec![other], vec![first]));
    assert_eq!(report["kept"][0]["need"], "follower");
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&follower), Some(0));
}

#[test]
fn the_usage_of_a_group_outlives_its_runs() {
    let stage = DaemonStage::without_daemon(2);
    let path = stage.home().join(".config/caretaker/config.toml");
    let config = std::fs::read_to_string(path).unwrap();
    stage.configure(&format!("{config}[budgets.group]\ntool_calls = \"3\"\n"));
    stage.start_daemon();
    for name in ["one", "two"] {
        let run = stage.queue(name, "shell true\nsay done", &["--group", "night"]);
        assert_eq!(stage.wait_for_end(&run), Some(0), "{}", stage.why(&run));
    }
    let shown = || -> Value { stage.json(&["group", "show", "night", "--json"]) };
    let before = shown()["spent"].clone();
    assert_eq!(before["tool_calls"]["known"], 2);
    let gone = stage.output(&["gc", "--keep", "1", "--yes", "--json"]);
    assert_exit(&gone, 0);
    assert_eq!(stage.run_ids().len(), 1);
    assert_eq!((&shown()["spent"], &shown()["n_gone"]), (&before, &json!(1)));
    let gone = stage.output(&["gc", "--older-than", "1ms", "--yes"]);
    assert_exit(&gone, 0);
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert_eq!((&shown()["spent"], &shown()["n_gone"]), (&before, &json!(2)));

    // The daemon that saw the deletion counts the runs once. So does the next daemon, and a command without a daemon.
    let third = stage.queue("three", "shell true\nsay done", &["--group", "night"]);
    assert_eq!(stage.wait_for_end(&third), Some(0), "{}", stage.why(&third));
    let fourth = stage.queue("four", "say done", &["--group", "night"]);
    let spent = "the budget of group `night` is exhausted: 3 of 3 tool calls used";
    assert!(stage.why(&fourth).contains(spent), "{}", stage.why(&fourth));
    stage.kill_daemon();
    std::fs::remove_file(stage.root().join("state/index.db")).unwrap();
    stage.start_daemon();
    let fifth = stage.queue("five", "say done", &["--group", "night"]);
    assert!(stage.why(&fifth).contains(spent), "{}", stage.why(&fifth));
    for run in [fourth, fifth] {
        assert!(stage.output(&["kill", &run]).status.success());
    }
    let stopped = stage.output(&["daemon", "stop"]);
    assert_exit(&stopped, 0);
    let refused = stage.play("say hi", &["--group", "night"]);
    assert_exit(&refused, 137);
    assert!(stderr(&refused).contains("3 of 3 tool calls used"), "{}", stderr(&refused));
    // Only the group's usage is left. The user can show it and raise the budget.
    let gone = stage.output(&["gc", "--older-than", "1ms", "--yes"]);
    assert_exit(&gone, 0);
    let raised = stage.output(&["group", "budget", "night", "tool_calls=9"]);
    assert_exit(&raised, 0);
    let output = stage.play("say hi", &["--group", "night"]);
    assert_exit(&output, 0);
    assert_eq!(shown()["spent"]["tool_calls"]["known"], 3);
    assert_eq!(stage.output(&["group", "show", "nobody"]).status.code(), Some(3));
    assert_eq!(stage.output(&["group", "budget", "../night", "none"]).status.code(), Some(3));
}

#[test]
fn the_outcomes_of_a_group_outlive_its_runs() {
    let stage = Stage::new();
    for (script, code) in [("say one", 0), ("exit 3", 1), ("say two", 0)] {
        let output = stage.play(script, &["--group", "night"]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
    let shown = || {
        let output = stage.output(&["group", "show", "night", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        (shown["succeeded"].clone(), shown["failed"].clone(), shown["n_gone"].clone())
    };
    assert_eq!(shown(), (json!(2), json!(1), json!(0)));
    gc(&stage, &["--keep", "1", "--yes"]);
    assert_eq!(stage.run_ids().len(), 1);
    assert_eq!(shown(), (json!(2), json!(1), json!(2)));
    let waited = stage.output(&["group", "wait", "night"]);
    assert_eq!(waited.status.code(), Some(1), "one of them failed");
    assert!(stderr(&waited).contains("2 of 3 succeeded, 1 failed"), "{}", stderr(&waited));

    gc(&stage, &["--older-than", "1ms", "--yes"]);
    assert_eq!(stage.run_ids(), Vec::<String>::new());
    assert_eq!(shown(), (json!(2), json!(1), json!(3)));
    let listed = stage.output(&["group", "ls", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let group = &listed["groups"][0];
    assert_eq!((&group["name"], &group["succeeded"]), (&json!("night"), &json!(2)));
    assert!(group["created_ms"].as_u64().is_some_and(|ms| ms > 0), "{group}");
    // An older version recorded how many runs were deleted, but not how they ended.
    let record = stage.root().join("state/groups/old.json");
    let sum = json!({"known": 0, "n_unknown": 4});
    let spent = json!({"tool_calls": sum, "time_ms": sum, "tokens": sum});
    fs::write(&record, json!({"v": 1, "gone": {"n_runs": 4, "spent": spent}}).to_string()).unwrap();
    let output = stage.output(&["group", "show", "old"]);
    assert!(stderr(&output).contains("0 of 4 succeeded, 4 unknown"), "{}", stderr(&output));
}
