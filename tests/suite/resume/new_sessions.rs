//! Sessions that have an id before their first prompt.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::{Stage, assert_exit, stderr};

fn mint(stage: &Stage) -> String {
    let output = stage.output(&["sessions", "new"]);
    assert_exit(&output, 0);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_new_session_id_starts_its_session_and_is_continued_like_any_other() {
    let stage = Stage::new();
    let session = mint(&stage);
    assert!(!stage.home().join(".cursor").exists(), "no agent was started");
    let check = stage.output(&["resume", "--check", &session, "--json"]);
    let check: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&check["kind"], &check["is_new"]), (&json!("resume.possible"), &json!(true)));

    let output = stage.play("say The first turn.", &["--session", &session]);
    assert_exit(&output, 0);
    let first = stage.run_ids().pop().unwrap();
    assert_eq!(stage.session_of(&first), session);
    assert!(stage.session_dir(&session).join("store.db").exists());
    let output = stage.resume(&session[..8], "recall", &[]);
    assert_exit(&output, 0);
    let second = stage.run_ids().pop().unwrap();
    assert_eq!(stage.session_of(&second), session);
    assert!(stage.journal(&second).iter().any(|entry| entry.line["run"]["kind"] == "resuming"));

    // Once a session has started, it never silently starts again.
    std::fs::remove_dir_all(stage.session_dir(&session)).unwrap();
    for args in [
        &["run", "--session", &session, "--agent", "simulated", "x"][..],
        &["resume", &session, "x"],
    ] {
        let output = stage.output(args);
        assert_exit(&output, 6);
    }
    assert_eq!(stage.run_ids().len(), 2);
}

#[test]
fn resume_starts_a_new_session_too_but_not_without_a_prompt() {
    let stage = Stage::new();
    let session = mint(&stage);
    let refused = stage.output(&["resume", &session, "--agent", "simulated"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("has no messages yet"), "{}", stderr(&refused));
    let output = stage.resume(&session, "say Hello.", &[]);
    assert_exit(&output, 0);
    assert_eq!(stage.session_of(&stage.run_ids().pop().unwrap()), session);
}

#[test]
fn an_unknown_id_and_one_for_another_workspace_are_refused() {
    let stage = Stage::new();
    let minted = mint(&stage);
    let other = stage.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    let unknown = "7d0b1c6e-5a52-4f0b-9a1e-2b7c8d9e0f11";
    for (args, words) in [
        (
            &["run", "--session", unknown, "--agent", "simulated", "x"][..],
            "there is no session 7d0b1c6e",
        ),
        (
            &["run", "--session", &minted, "-C", other, "--agent", "simulated", "x"],
            "it belongs to the workspace",
        ),
    ] {
        let output = stage.output(args);
        assert_ne!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert!(stage.run_ids().is_empty());
}

#[test]
fn a_first_run_that_fails_before_it_has_a_store_leaves_the_id_usable() {
    let stage = Stage::new();
    let session = mint(&stage);
    let held = stage.detach("wait 10m", &[]);
    let refused = stage.play("say no", &["--session", &session]);
    assert_exit(&refused, 4);
    assert_eq!(stage.output(&["kill", "--now", &held]).status.code(), Some(0));
    let output = stage.play("say yes", &["--session", &session]);
    assert_exit(&output, 0);
    assert_eq!(stage.session_of(&stage.run_ids().pop().unwrap()), session);
}

#[test]
fn gc_forgets_unused_session_ids() {
    let stage = Stage::new();
    let (used, unused) = (mint(&stage), mint(&stage));
    let output = stage.play("say yes", &["--session", &used]);
    assert_exit(&output, 0);
    let gc = |args: &[&str]| -> Value {
        let output = stage.output(&[&["gc", "--older-than", "1ms", "--json"], args].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(gc(&[])["minted"], json!([unused]));
    assert!(stage.root().join("state/sessions").join(&unused).exists());
    assert_eq!(gc(&["--yes"])["minted"], json!([unused]));
    assert!(!stage.root().join("state/sessions").join(&unused).exists());
    let refused = stage.output(&["resume", &unused, "x", "--agent", "simulated"]);
    assert_exit(&refused, 3);
    assert!(stage.root().join("state/sessions").join(&used).exists());
}

#[test]
fn gc_says_whether_it_forgot_an_unused_id() {
    let stage = Stage::new();
    let unused = mint(&stage);
    let said =
        |flags: &[&str]| stderr(&stage.output(&[&["gc", "--older-than", "1ms"], flags].concat()));
    let would = said(&[]);
    assert!(would.contains(&format!("unused session id {unused} would be deleted")), "{would}");
    let did = said(&["--yes"]);
    assert!(did.contains(&format!("deleted unused session id {unused}")), "{did}");
    let nothing = said(&["--yes"]);
    assert!(!nothing.contains(&unused), "{nothing}");
}

#[test]
fn gc_keeps_the_session_id_of_a_queued_run() {
    let stage = DaemonStage::new(1);
    assert!(stage.output(&["queue", "pause"]).status.success());
    let session = mint(&stage);
    let run = stage.detach("say hello", &["--session", &session]);
    let output = stage.output(&["gc", "--older-than", "1ms", "--yes", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["minted"], json!([]), "{report}");
    assert!(stage.root().join("state/sessions").join(&session).join("minted.json").exists());
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&run), Some(0), "{}", stage.why(&run));
    assert_eq!(stage.session_of(&run), session);
}
