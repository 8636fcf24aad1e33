//! Sessions that are suspended, resumed, taken over and forgotten.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr, stdout};

fn suspend(stage: &Stage, run: &str) -> Value {
    stage.json(&["suspend", run, "--json"])
}

#[test]
fn the_agent_remembers_what_a_suspended_run_was_doing() {
    let stage = Stage::new();
    for (moment, script, until, outcome) in [
        (
            "mid-text",
            "# heron\nsay One.\nshell true\nwait 60s\nsay Two.",
            "agent.tool_completed",
            "suspended",
        ),
        ("mid-tool", "# ibis\nsay One.\nshell sleep 60", "agent.tool_started", "suspended"),
        ("after the result", "# egret\nmisbehave linger\nsay One.", "agent.result", "succeeded"),
    ] {
        let run = stage.detach(script, &[]);
        stage.wait_until(&run, |line| line["kind"] == until);
        let session = stage.session_of(&run);
        let report = suspend(&stage, &run);
        assert_eq!(report["state"]["outcome"], outcome, "{moment}: {report}");
        let record = &report["record"];
        assert_eq!((&record["session"], &record["generation"]), (&json!(session), &json!(1)));
        assert_eq!(record["workspace"], json!(stage.workspace()));
        assert_eq!(record["config_root"], json!(stage.home().join(".cursor")));
        let checkpoint = &record["checkpoint"];
        assert_eq!(checkpoint["resumable"], "yes", "{moment}: {report}");
        let is_mid_tool = moment == "mid-tool";
        assert_eq!(checkpoint["pending"][0]["subject"] == "sleep 60", is_mid_tool, "{report}");
        assert_eq!(suspend(&stage, &run), report, "{moment}: a second suspend changes nothing");

        let output = stage.resume(&session, "recall", &[]);
        assert_eq!(output.status.code(), Some(0), "{moment}: {}", stderr(&output));
        let quoted = script.lines().next().unwrap();
        assert!(stdout(&output).contains(quoted), "{moment}: {}", stdout(&output));
        let told = "the agent was running `sleep 60` when it was stopped; it will learn";
        assert_eq!(stderr(&output).contains(told), is_mid_tool, "{moment}: {}", stderr(&output));
        stage.assert_no_survivors(moment);
    }
}

#[test]
fn a_run_suspended_before_its_first_checkpoint_cannot_be_resumed() {
    let stage = Stage::new();
    let run = stage.detach("wait 60s\nsay Never.", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.user");
    let session = stage.session_of(&run);
    let report = suspend(&stage, &run);
    assert_eq!(report["state"]["outcome"], "suspended", "{report}");
    assert_eq!(report["record"]["checkpoint"]["resumable"], "no", "{report}");
    let refused = stage.resume(&session, "recall", &[]);
    assert_exit(&refused, 6);
    assert!(stderr(&refused).contains("--fresh"), "{}", stderr(&refused));
    assert_eq!(stage.run_ids().len(), 1);

    let fresh = stage.resume(&session, "recall", &["--fresh"]);
    assert_exit(&fresh, 0);
    assert!(stdout(&fresh).contains("I remember nothing"), "{}", stdout(&fresh));
    let begun = stage.session_of(&stage.run_ids().pop().unwrap());
    assert!(begun != session, "the old session stays unchanged");
}

#[test]
fn a_fresh_session_begins_only_in_the_workspace_of_the_old_one() {
    let stage = Stage::new();
    let session = stage.begin_session();
    std::fs::remove_file(stage.session_dir(&session).join("store.db")).unwrap();
    // Only Cursor's own record names the session's workspace, and the user is in another directory.
    std::fs::remove_dir_all(stage.root().join("state")).unwrap();
    let prompt = "Play this:\n```agent\nrecall\n```\n";
    let args = ["resume", &session, prompt, "--agent", "simulated", "--fresh"];
    let output = stage.caretaker(&args).current_dir(stage.home()).output().unwrap();
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.journal(&run)[0].line["run"]["workspace"], json!(stage.workspace()));

    let gone = stage.home().join("gone");
    std::fs::rename(stage.workspace(), &gone).unwrap();
    let refused = stage.caretaker(&args).current_dir(&gone).output().unwrap();
    assert_exit(&refused, 6);
    assert!(stderr(&refused).contains("--workspace DIR"), "{}", stderr(&refused));
    std::fs::rename(&gone, stage.workspace()).unwrap();

    let session = stage.begin_session();
    let holder = stage.detach("say Held.\nshell sleep 60", &["--session", &session]);
    stage.wait_until(&holder, |line| line["kind"] == "agent.tool_started");
    let held = stage.resume(&session, "recall", &["--fresh"]);
    assert_eq!(held.status.code(), Some(4), "the session can be resumed later: {}", stderr(&held));
    assert!(stage.output(&["kill", "--now", &holder]).status.success());
}

#[test]
fn a_resumed_run_is_retried_too_and_says_so() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\nretry_after = \"10ms\"\n");
    let session = stage.begin_session();
    let output = stage.resume(&session, "fail resource-exhausted", &["--retries", "1"]);
    assert_exit(&output, 1);
    let runs = stage.run_ids();
    assert_eq!(runs.len(), 3, "{}", stderr(&output));
    assert!(runs.iter().all(|run| stage.session_of(run) == session));
    for flags in [["--retries", "1", "--detach"], ["--detach", "--retries", "1"]] {
        let refused = stage.resume(&session, "say never", &flags);
        assert_exit(&refused, 2);
    }
    assert_eq!(stage.run_ids().len(), 3);
}

#[test]
fn a_session_that_another_run_took_during_the_pause_is_not_retried() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\nretry_after = \"6s\"\n");
    let session = stage.begin_session();
    let prompt = "Play this:\n```agent\nfail resource-exhausted\n```\n";
    let args = ["resume", &session, prompt, "--agent", "simulated", "--retries", "1"];
    let mut retrying =
        stage.caretaker(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(retrying.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(
        said.any(|line| line.contains("trying again in")),
        "the command pauses before it retries"
    );
    // The test stops the command until the other run has ended.
    let pid = retrying.id().to_string();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let other = stage.resume(&session, "say Somebody else.", &[]);
    assert_exit(&other, 0);
    signal("-CONT");

    let said: String = said.collect();
    assert_eq!(retrying.wait().unwrap().code(), Some(6), "{said}");
    assert!(said.contains("took the session after run"), "{said}");
    assert_eq!(stage.run_ids().len(), 3, "nothing was started: {said}");
}

#[test]
fn all_runs_are_suspended_at_once() {
    let stage = Stage::new();
    let other = stage.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let script = "say One.\nshell sleep 60";
    let runs = [
        stage.detach(script, &[]),
        stage.detach(script, &["--workspace", other.to_str().unwrap()]),
    ];
    for run in &runs {
        stage.wait_until(run, |line| line["kind"] == "agent.tool_started");
    }
    let output = stage.output(&["suspend", "--all"]);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output).matches("caretaker resume ").count(), 2, "{}", stderr(&output));
    let ps = stage.output(&["ps", "--all"]);
    assert_eq!(stdout(&ps).matches("suspended  ").count(), 2, "{}", stdout(&ps));
    stage.assert_no_survivors("after suspend --all");
}

#[test]
fn a_session_is_found_by_id_prefix_by_run_by_name_and_as_the_latest() {
    let stage = Stage::new();
    let output = stage.play("say The heron.", &["--name", "nightly"]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let session = stage.session_of(&run);
    for target in [&session[..8], &run, "nightly", "-"] {
        let output = stage.output(&["resume", "--check", "--json", target]);
        assert_eq!(output.status.code(), Some(0), "{target}: {}", stderr(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["session"], json!(session), "{target}");
    }
    for target in ["beef", "no-such-run"] {
        let output = stage.output(&["resume", "--check", target]);
        assert_eq!(output.status.code(), Some(3), "{target}: {}", stderr(&output));
    }
    // Without a prompt, the command sends the configured one.
    let output = stage.output(&["resume", "-", "--agent", "simulated"]);
    assert_exit(&output, 0);
    let prompt =
        std::fs::read_to_string(stage.runs().join(stage.run_ids().pop().unwrap()).join("prompt"));
    assert_eq!(prompt.unwrap(), "Continue where you were interrupted.");
    for unknown in ["nobody", "0000"] {
        let output = stage.output(&["resume", "--json", unknown, "go on"]);
        assert_exit(&output, 3);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["kind"], "resume.refused");
        assert_eq!(answer["reason"]["kind"], "unknown_session", "{answer}");
    }
}

#[test]
fn a_session_that_caretaker_never_launched_is_resumed_in_its_own_workspace() {
    let stage = Stage::new();
    let session = stage.begin_session();
    // Delete Caretaker's own records, because the user's own agent would not have made any.
    std::fs::remove_dir_all(stage.root().join("state")).unwrap();
    let prompt = "Play this:\n```agent\nrecall\n```\n";
    let args = ["resume", &session, prompt, "--agent", "simulated"];
    let output = stage.caretaker(&args).current_dir(stage.home()).output().unwrap();
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("The first turn."), "{}", stdout(&output));
    let run = stage.run_ids().pop().unwrap();
    assert_eq!(stage.journal(&run)[0].line["run"]["workspace"], json!(stage.workspace()));
}

#[test]
fn a_session_in_use_is_refused_waited_for_or_taken_over() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let holder = stage.detach("say Held.\nshell sleep 60", &["--session", &session]);
    stage.wait_until(&holder, |line| line["kind"] == "agent.tool_started");
    let refused = stage.resume(&session, "recall", &[]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains(&holder), "{}", stderr(&refused));

    let waiting = stage
        .caretaker(&["resume", &session, "Play this:\n```agent\nrecall\n```\n", "--wait"])
        .args(["--agent", "simulated"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let queued = loop {
        if let Some(run) = stage.run_ids().into_iter().nth(2) {
            break run;
        }
        std::thread::yield_now();
    };
    stage.wait_until(&queued, |line| line["kind"] == "run.waiting");
    assert!(stage.output(&["kill", &holder]).status.success());
    let output = waiting.wait_with_output().unwrap();
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("Held."), "{}", stdout(&output));

    let holder = stage.detach("say Stolen.\nshell sleep 60", &["--session", &session]);
    stage.wait_until(&holder, |line| line["kind"] == "agent.tool_started");
    let output = stage.resume(&session, "recall", &["--steal"]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("Stolen."), "{}", stdout(&output));
    let show = stage.output(&["show", &holder]);
    assert!(stdout(&show).contains("suspended"), "{}", stdout(&show));
}

#[test]
fn an_agent_that_forgets_is_stopped_and_the_old_conversation_stays() {
    let stage = Stage::new();
    let session = stage.begin_session();
    // Caretaker stops the first run while it is working. The second ends before Caretaker notices.
    for (script, is_caught) in [
        ("misbehave forget\nsay Who are you?\nshell sleep 60", true),
        ("misbehave forget\nsay Who are you?", false),
    ] {
        let output = stage.resume(&session, script, &[]);
        assert_eq!(output.status.code(), Some(7), "{script}: {}", stderr(&output));
        let ended = stage.ended();
        assert_eq!(ended["outcome"], "amnesia", "{script}: {ended}");
        let journal = stage.journal(&stage.run_ids().pop().unwrap());
        let resumed = journal.iter().find(|entry| entry.line["run"]["kind"] == "resuming");
        let put_back = journal.iter().find(|entry| entry.line["run"]["kind"] == "root_put_back");
        assert_eq!(
            put_back.unwrap().line["run"]["to"],
            resumed.unwrap().line["run"]["root"],
            "{script}"
        );
        let was_stopped = journal.iter().any(|entry| entry.line["run"]["reason"] == "amnesia");
        // On a slow machine, the command may have seen the second run in time as well.
        assert!(was_stopped || !is_caught, "{script}");
    }
    let output = stage.resume(&session, "recall", &[]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("The first turn."), "{}", stdout(&output));
    assert!(!stdout(&output).contains("Who are you?"), "{}", stdout(&output));
}

#[test]
fn an_agent_that_destroys_or_ignores_its_store_did_not_continue_the_conversation() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let agent = stage.home().join("absent-minded");
    let script = r#"#!/bin/sh
while [ "$#" -gt 0 ]; do [ "$1" = --resume ] && session=$2; shift; done
cat > /dev/null
printf '{"type":"system","subtype":"init","session_id":"%s","cwd":"%s"}\n' "$session" "$PWD"
printf '{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"%s"}\n' "$session"
"#;
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.to_str().unwrap();
    let mut command =
        stage.caretaker(&["resume", "--agent", agent, "--widen", "agent", &session, "go on"]);
    let output = command.env("CURSOR_API_KEY", "a key").output().unwrap();
    assert_exit(&output, 7);
    assert_eq!(stage.ended()["outcome"], "amnesia", "{}", stage.ended());
    let output = stage.resume(&session, "recall", &["--widen", "agent"]);
    assert!(stdout(&output).contains("The first turn."), "{}", stdout(&output));

    let output = stage.resume(&session, "shell rm $HOME/.cursor/chats/*/*/store.db*", &[]);
    assert_exit(&output, 7);
    assert!(stage.ended()["why"].to_string().contains("unreadable"), "{}", stage.ended());
    // A new conversation that the user's own agent starts under the old id does not count as the old one.
    let other = stage.begin_session();
    fs::create_dir_all(stage.session_dir(&session)).unwrap();
    let store = |session: &str| stage.session_dir(session).join("store.db");
    fs::copy(store(&other), store(&session)).unwrap();
    let output = stage.output(&["resume", "--check", "--json", &session]);
    assert_exit(&output, 6);
    assert!(stdout(&output).contains("checkpoint_lost"), "{}", stdout(&output));
}

#[test]
fn a_summarised_conversation_does_not_count_as_forgotten() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let output = stage.resume(&session, "shell true\ncompact 1ms\nsay Summed up.", &[]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stderr(&output), stage.ended());
    let output = stage.resume(&session, "recall", &[]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("The first turn."), "{}", stdout(&output));
}

#[test]
fn exactly_one_of_fifty_simultaneous_resumes_runs() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let prompt = "Play this:\n```agent\nsay Mine.\nshell sleep 120\n```\n";
    let asking: Vec<_> = (0..50)
        .map(|_| {
            stage
                .caretaker(&["resume", &session, prompt, "--agent", "simulated", "--detach"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let answers: Vec<_> =
        asking.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let runs: Vec<String> = answers
        .iter()
        .filter(|answer| answer.status.success())
        .map(|answer| stdout(answer).trim().to_owned())
        .collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    for refused in answers.iter().filter(|answer| !answer.status.success()) {
        assert_eq!(refused.status.code(), Some(4), "{}", stderr(refused));
        assert!(
            stderr(refused).contains(&runs[0]),
            "the error names the holder: {}",
            stderr(refused)
        );
    }
    assert_eq!(stage.run_ids().len(), 2, "the refused commands left nothing behind");
    assert!(stage.output(&["kill", "--now", &runs[0]]).status.success());
    stage.assert_no_survivors("after fifty resumes");
}

#[test]
fn only_a_run_that_failed_before_any_tool_is_retried_and_each_attempt_is_a_run() {
    let stage = Stage::new();
    stage.configure("min_free = \"0\"\nretry_after = \"10ms\"\n");
    let output = stage.play("fail resource-exhausted", &["--retries", "2"]);
    assert_exit(&output, 1);
    let runs = stage.run_ids();
    assert_eq!(runs.len(), 3, "{}", stderr(&output));
    for (earlier, later) in runs.iter().zip(&runs[1..]) {
        let shown = stage.output(&["show", later, "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(shown["retry_of"], json!(earlier));
        assert!(stage.session_of(earlier) != stage.session_of(later));
    }
    let output = stage.play("shell true\nfail resource-exhausted", &["--retries", "2"]);
    assert_exit(&output, 1);
    assert_eq!(stage.run_ids().len(), 4, "a tool was called: {}", stderr(&output));
    let output = stage.play("fail usage-limit", &["--retries", "2"]);
    assert_exit(&output, 1);
    assert_eq!(stage.run_ids().len(), 5, "not an infrastructure failure: {}", stderr(&output));
}
