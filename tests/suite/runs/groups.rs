//! Many runs as one group: `run --each`, `run --matrix`, `caretaker group`, with and without a daemon.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::{git, make_repository};
use crate::stage::{Stage, assert_exit, json_lines, stderr, stdout};

fn prompt(script: &str) -> String {
    format!("Play this:\n```agent\n{script}\n```\n")
}

/// Returns a line for `run --each`.
fn line(script: &str, more: Value) -> String {
    let mut line = json!({"prompt": prompt(script)});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

fn start(stage: &Stage, lines: &str, flags: &[&str]) -> Child {
    stage.feed(&[&["run", "--agent", "simulated", "--each", "-"], flags].concat(), lines)
}

fn each(stage: &Stage, lines: &str, flags: &[&str]) -> Output {
    start(stage, lines, flags).wait_with_output().unwrap()
}

/// Returns the largest number of agents that worked at the same time.
fn most_at_once(stage: &Stage) -> usize {
    let mut steps: Vec<(u64, i64)> = Vec::new();
    for run in stage.run_ids() {
        for entry in stage.journal(&run) {
            let at = entry.line["at"].as_u64().unwrap();
            match entry.line["run"]["kind"].as_str() {
                Some("released") => steps.push((at, 1)),
                Some("ended") => steps.push((at, -1)),
                _ => {}
            }
        }
    }
    // If one run ends and another starts within the same millisecond, they did not overlap.
    steps.sort_unstable();
    let (mut live, mut most) = (0, 0);
    for (_, step) in steps {
        live += step;
        most = most.max(live);
    }
    usize::try_from(most).unwrap()
}

#[test]
fn without_a_daemon_every_line_runs_in_a_worktree_of_its_own_and_the_cap_is_kept() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue]\ncap = 2\n");
    let mut lines: String = (1..=5)
        .map(|number| {
            let script = format!("shell echo {number} > made && sleep 0.2\nsay number {number}");
            line(&script, json!({"name": format!("task-{number}")}))
        })
        .collect();
    lines.push_str(&line("exit 3", json!({"name": "broken", "labels": {"kind": "bad"}})));
    let output = each(&stage, &lines, &["--json", "--group", "night"]);
    assert_exit(&output, 1);
    let mut results = json_lines(&output);
    results.sort_by_key(|result| result["line"].as_u64());
    assert_eq!(results.len(), 6, "{}", stderr(&output));
    for (index, result) in results[..5].iter().enumerate() {
        assert_eq!(result["line"], json!(index + 1));
        assert_eq!((&result["exit_code"], &result["group"]), (&json!(0), &json!("night")));
        assert_eq!(result["result"], json!(format!("number {}", index + 1)));
        assert_eq!(result["tool_calls"], json!(1));
        let workspace = Path::new(result["workspace"].as_str().unwrap());
        assert_eq!(fs::read_to_string(workspace.join("made")).unwrap(), format!("{}\n", index + 1));
        assert!(result["branch"].as_str().unwrap().starts_with("caretaker/task-"), "{result}");
    }
    assert_eq!((&results[5]["name"], &results[5]["exit_code"]), (&json!("broken"), &json!(1)));
    assert_eq!(most_at_once(&stage), 2);
    assert_eq!(git(&stage.workspace(), &["status", "--porcelain"]), "");

    let shown = stage.output(&["group", "show", "night", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["succeeded"], &shown["failed"]), (&json!(5), &json!(1)));
    assert_eq!(shown["runs"][5]["labels"], json!({"batch/line": "6", "kind": "bad"}));
    let waited = stage.output(&["group", "wait", "night"]);
    assert_eq!(waited.status.code(), Some(1));
    assert!(stdout(&waited).contains("task-3"), "{}", stdout(&waited));
    assert!(stderr(&waited).contains("5 of 6 succeeded, 1 failed"), "{}", stderr(&waited));
    let listed = stage.output(&["group", "ls"]);
    assert!(stdout(&listed).contains("night"), "{}", stdout(&listed));
    let missing = stage.output(&["group", "show", "day"]);
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn a_single_bad_line_starts_nothing() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    for (bad, part) in [
        ("{\"prompt\":\"x\",\"modell\":\"m\"}", "line 2: unknown field `modell`"),
        ("{\"prompt\":\"x\",\"model\":\"-bad-\"}", "line 2: the model cannot be used"),
        ("{\"prompt\":\"x\",\"profile\":\"none-such\"}", "line 2: "),
        ("{\"prompt\":\"x\",\"workspace\":\"/no/such\"}", "line 2: "),
        ("{\"prompt\":\"x\"", "line 2: EOF while parsing"),
        ("{\"prompt\":\"x\",\"name\":\"one\"}", "line 1 already has the name `one`"),
    ] {
        let lines = format!("{{\"prompt\":\"fine\",\"name\":\"one\"}}\n{bad}\n");
        let output = each(&stage, &lines, &[]);
        let said = stderr(&output);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{bad}: {said}");
        assert!(said.contains(part), "{bad}: {said}");
        assert_eq!(stage.run_ids(), [""; 0], "{bad}");
        assert!(!stage.root().join("state/worktrees").exists(), "{bad}");
    }
    let empty = each(&stage, "\n\n", &[]);
    assert_exit(&empty, 2);
    assert_eq!(git(&stage.workspace(), &["branch", "--list", "caretaker/*"]), "");
}

#[test]
fn without_a_repository_a_hint_suggests_in_place_and_runs_in_place_take_turns() {
    let stage = Stage::new();
    let refused = each(&stage, "look\n", &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--in-place"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids(), [""; 0]);

    let args = ["run", "--agent", "simulated", "--in-place", "--matrix", "model=auto,composer-2.5"];
    let script = prompt("shell echo $$ >> made\nsay done");
    let matrix = ["--matrix", "mode=ask,plan", &script];
    let output = stage.output(&[&args[..], &matrix].concat());
    assert_exit(&output, 0);
    assert_eq!(stage.run_ids().len(), 4);
    assert_eq!(most_at_once(&stage), 1, "they share the workspace");
    let table = stdout(&output);
    assert!(table.contains("Composer 2.5") && table.contains("succeeded"), "{table}");
}

#[test]
fn a_signal_without_a_terminal_stops_all_runs_and_starts_no_more() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue]\ncap = 1\n");
    let lines = line("shell sleep 600", json!({})).repeat(3);
    let child = start(&stage, &lines, &["--json"]);
    let run = first_run(&stage);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 130);
    let results = json_lines(&output);
    assert_eq!(results.len(), 3, "{}", stderr(&output));
    assert_eq!(results.iter().filter(|result| result["run"].is_null()).count(), 2);
    assert_eq!(stage.run_ids().len(), 1);
    stage.assert_no_survivors("the batch");
}

/// Waits for the first run of a stage.
fn first_run(stage: &Stage) -> String {
    loop {
        if let Some(run) = stage.run_ids().into_iter().next() {
            return run;
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_command_that_fills_a_group_stops_when_the_group_is_killed() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue]\ncap = 1\n");
    let lines = line("shell sleep 600", json!({})).repeat(3);
    let child = start(&stage, &lines, &["--group", "night"]);
    let run = first_run(&stage);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let killed = stage.output(&["group", "kill", "night", "--now"]);
    assert_exit(&killed, 0);
    let output = child.wait_with_output().unwrap();
    assert_exit(&output, 130);
    assert!(stderr(&output).contains("the group was stopped"), "{}", stderr(&output));
    assert_eq!(stage.run_ids().len(), 1);
}

#[test]
fn without_a_daemon_a_detached_batch_that_does_not_fit_is_refused() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue]\ncap = 1\n");
    let lines = line("say hi", json!({})).repeat(2);
    let refused = each(&stage, &lines, &["--detach"]);
    assert_exit(&refused, 69);
    assert!(stderr(&refused).contains("caretaker daemon start"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids(), [""; 0]);
    let one = each(&stage, &line("say hi", json!({})), &["--detach", "--group", "night"]);
    assert_exit(&one, 0);
    assert_eq!(stdout(&one).trim(), stage.run_ids()[0]);
    let waited = stage.output(&["group", "wait", "night", "--json"]);
    assert_exit(&waited, 0);
    assert_eq!(json_lines(&waited)[0]["result"], "hi");
}

#[test]
fn without_a_daemon_a_line_with_a_higher_priority_starts_first() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue]\ncap = 1\n");
    let lines = ["low", "high", "middle"].map(|name| {
        let priority = json!({"low": -3, "high": 7, "middle": 0})[name].clone();
        line("say done", json!({"name": name, "priority": priority}))
    });
    let output = each(&stage, &lines.concat(), &["--json"]);
    assert_exit(&output, 0);
    let names: Vec<Value> =
        json_lines(&output).into_iter().map(|result| result["name"].clone()).collect();
    assert_eq!(names, ["high", "middle", "low"]);
}

#[test]
fn without_a_daemon_the_cap_of_the_default_account_is_kept() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue.accounts]\ndefault = 1\n");
    let lines = line("shell sleep 0.2\nsay done", json!({})).repeat(3);
    let output = each(&stage, &lines, &["--json"]);
    assert_exit(&output, 0);
    assert_eq!(json_lines(&output).len(), 3);
    assert_eq!(most_at_once(&stage), 1);
}

#[test]
fn a_batch_whose_runs_can_never_start_is_refused() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    stage.configure_also("[queue.accounts]\ndefault = 0\n");
    let output = each(&stage, &line("say done", json!({})), &["--json"]);
    assert_exit(&output, 4);
    assert!(stderr(&output).contains("no run of the batch can start"), "{}", stderr(&output));
}

#[test]
fn with_a_daemon_the_batch_outlives_the_command_and_the_daemon() {
    let stage = DaemonStage::new(2);
    make_repository(&stage.workspace());
    let lines = line("shell sleep 0.2\nsay done", json!({"priority": 3})).repeat(6);
    let output = each(&stage, &lines, &["--detach", "--group", "night"]);
    assert_exit(&output, 0);
    assert_eq!(stdout(&output).lines().count(), 6);
    stage.kill_daemon();
    stage.start_daemon();
    let waited = stage.output(&["group", "wait", "night", "--json"]);
    assert_exit(&waited, 0);
    assert_eq!(json_lines(&waited).len(), 6);
    assert!(most_at_once(&stage) <= 2);
    for run in stage.run_ids() {
        let kinds = stage.kinds(&run);
        assert_eq!((kinds["released"], kinds["ended"]), (1, 1), "{run}");
        let queued = stage.journal(&run).into_iter().find(|it| it.line["run"]["kind"] == "queued");
        assert_eq!(queued.unwrap().line["run"]["priority"], 3);
    }
}

#[test]
fn killing_a_group_also_ends_its_waiting_runs() {
    let stage = DaemonStage::new(1);
    make_repository(&stage.workspace());
    let lines = line("shell sleep 600", json!({})).repeat(4);
    let mut child = start(&stage, &lines, &["--group", "night"]);
    let said = BufReader::new(child.stderr.take().unwrap());
    let waited = stage.output(&["group", "wait", "night", "--timeout", "1ms"]);
    assert!(matches!(waited.status.code(), Some(3 | 75)), "{}", stderr(&waited));
    let run = first_run(&stage);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let killed = stage.output(&["group", "kill", "night"]);
    assert_exit(&killed, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said: Vec<String> = said.lines().map(Result::unwrap).collect();
    assert!(said.last().unwrap().contains("0 of 4 succeeded"), "{said:?}");
    let shown = stage.output(&["group", "show", "night", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["running"], &shown["queued"]), (&json!(0), &json!(0)));
    assert_eq!(most_at_once(&stage), 1, "no run replaced the killed one");
    let (_, groups) = stage.get("/v1/groups");
    assert_eq!(groups["groups"][0]["name"], "night");
}

#[test]
fn a_group_that_spends_more_than_its_budget_says_so() {
    let stage = Stage::new();
    make_repository(&stage.workspace());
    // All six runs are live before one of them ends.
    let gate = stage.root().join("gate");
    fs::create_dir(&gate).unwrap();
    let gate = gate.to_str().unwrap();
    let script =
        format!("shell true\nshell until test -e {gate}/open; do sleep 0.05; done\nsay done");
    let lines = line(&script, json!({})).repeat(6);
    let flags = ["--group", "night", "--group-budget", "tool_calls=2", "--expose", gate];
    let batch = start(&stage, &lines, &[&flags[..], &["--detach"]].concat());
    let runs = batch.wait_with_output().unwrap();
    for run in stdout(&runs).lines() {
        stage.wait_until(run, |line| line["kind"] == "agent.tool_started");
    }
    fs::write(Path::new(gate).join("open"), "").unwrap();
    let output = stage.output(&["group", "wait", "night"]);
    assert_exit(&output, 0);
    let spent = "the budget of group `night` is exhausted: 12 of 2 tool calls used; \
        live runs go on, no new runs start";
    assert_eq!(stderr(&output).matches(spent).count(), 1, "{}", stderr(&output));
    let shown = stage.output(&["group", "show", "night"]);
    assert!(stderr(&shown).contains(spent), "{}", stderr(&shown));
    let shown = stage.output(&["group", "show", "night", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["overspent"]["spent"], 12);

    // A command that follows the batch to its end reports it too.
    let one = line("shell true\nsay done", json!({}));
    let output = each(&stage, &one, &["--group", "day", "--group-budget", "tool_calls=1"]);
    let spent = "the budget of group `day` is exhausted: 1 of 1 tool calls used";
    assert!(stderr(&output).contains(spent), "{}", stderr(&output));
}
