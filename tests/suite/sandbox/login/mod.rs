//! Runs that log in with the user's own login file: a private copy goes in, and renewed tokens come back in time.

mod forged;
mod restore;
pub(crate) mod user;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::assert_exit;
use user::{DAY, HOUR, REPLACE, User, WAIT_FOR_GO, login_of, token};

/// Returns a newly renewed login.
fn renewed(mark: &str) -> Value {
    login_of(&token("me", 0, DAY, mark))
}

#[test]
fn a_run_logs_in_with_a_copy_and_renewed_tokens_come_back_with_an_event_and_a_line() {
    let user = User::logged_out();
    let old = token("me", HOUR - DAY, HOUR, "old");
    user.log_in(&json!({"accessToken": old, "refreshToken": old, "userId": "me"}));
    let new = token("me", 0, DAY, "new");
    user.leave(login_of(&new).to_string().as_bytes());
    let (run, output) =
        user.play_well(&format!("shell cat ~/.config/cursor/auth.json\n{REPLACE}\nsay done"));
    assert_eq!(
        user.login(),
        json!({"accessToken": new, "refreshToken": new, "userId": "me"}),
        "fields that the agent left out stay"
    );
    let mode = std::fs::metadata(user.login_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    for secret in [&old, &new] {
        assert!(!journal.contains(secret), "{journal}");
        assert!(!stdout.contains(secret));
    }
    assert!(journal.contains("[redacted]") && journal.contains("\"apiKeySource\":\"login\""));
    let events = user.login_events(&run);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["kind"], "login_carried_back");
    let shown = user.stage.output(&["show", &run]).stdout;
    let told = user.stage.output(&["tail", &run]).stdout;
    for text in [stdout, String::from_utf8(shown).unwrap(), String::from_utf8(told).unwrap()] {
        assert!(text.contains("login file has the new tokens"), "{text}");
        assert!(text.contains("caretaker login restore"), "{text}");
    }
    user.check_that_nothing_is_left_of_the_copy();
    user.stage.assert_no_survivors("after the run");
}

#[test]
fn opaque_tokens_come_back_if_every_other_field_agrees() {
    let user = User::logged_out();
    let login = |token: &str| json!({"accessToken": token, "refreshToken": token, "userId": "me"});
    user.log_in(&login("opaque-0123456789abcdef"));
    user.leave(login("opaque-fedcba9876543210").to_string().as_bytes());
    let (run, _) = user.play_well(&format!("{REPLACE}\nsay done"));
    assert_eq!(user.login(), login("opaque-fedcba9876543210"));
    assert_eq!(user.login_events(&run)[0]["kind"], "login_carried_back");
}

#[test]
fn a_token_that_the_agent_refreshed_is_kept_out_of_the_journal_too() {
    let user = User::new();
    let new = token("me", 0, DAY, "new");
    user.leave(login_of(&new).to_string().as_bytes());
    let (run, _) =
        user.play_well(&format!("{REPLACE}\nshell cat ~/.config/cursor/auth.json\nsay done"));
    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    assert!(!journal.contains(&new), "{journal}");
    let redacted = user.stage.journal(&run).into_iter().filter(|entry| {
        entry.line["redacted"] == true && entry.line.to_string().contains("cat ~/.config")
    });
    assert!(redacted.count() > 0, "{journal}");
    assert_eq!(user.login()["accessToken"], new, "and the user got it");
}

#[test]
fn a_key_is_preferred_and_the_login_stays_outside() {
    let user = User::new();
    let output = user
        .command("shell ls ~/.config/cursor; true\nsay done", &[])
        .env("CURSOR_API_KEY", "key_0123456789abcdef")
        .output()
        .unwrap();
    assert_exit(&output, 0);
    let run = user.stage.run_ids().pop().unwrap();
    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    assert!(!journal.contains("auth.json"), "{journal}");
    assert!(journal.contains("\"apiKeySource\":\"env\""));
}

#[test]
fn a_user_who_logs_in_while_an_agent_runs_keeps_that_login() {
    let user = User::new();
    user.leave(renewed("by-the-agent").to_string().as_bytes());
    let run = user.start_replaced();
    let own = renewed("by-the-user");
    user.log_in(&own);
    user.let_go();
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(0));
    assert_eq!(user.login(), own);
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn tokens_that_were_refreshed_before_the_shim_was_killed_are_not_lost() {
    let user = User::new();
    let new = renewed("new");
    user.leave(new.to_string().as_bytes());
    let run = user.start_replaced();
    let lock = std::fs::read(user.stage.runs().join(&run).join("run.lock")).unwrap();
    let holder: Value = serde_json::from_slice(&lock).unwrap();
    let killed = Command::new("kill").args(["-KILL", &holder["pid"].to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(5));

    // Either the login came back immediately, or the next run in the workspace brings it back during cleanup.
    user.play_well("say done");
    assert_eq!(user.login(), new);
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn tokens_that_the_next_run_finds_are_recorded_in_the_journal_of_the_dead_run() {
    let user = User::new();
    let new = renewed("new");
    user.leave(new.to_string().as_bytes());
    let told = user.stage.workspace().join("told");
    assert!(Command::new("mkfifo").arg(&told).status().unwrap().success());
    let run = user.detach(&format!("{WAIT_FOR_GO}\n{REPLACE}; echo done > told\nsay done"), &[]);
    user.stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let lock = std::fs::read(user.stage.runs().join(&run).join("run.lock")).unwrap();
    let holder: Value = serde_json::from_slice(&lock).unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &holder["pid"].to_string()]).status();
        assert!(sent.unwrap().success());
    };
    // The stopped shim does not see the renewal; the agent continues without the shim.
    signal("-STOP");
    user.let_go();
    assert_eq!(std::fs::read_to_string(told).unwrap(), "done\n");
    signal("-KILL");
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(5));
    assert_eq!(user.login_events(&run), Vec::<Value>::new());

    user.play_well("say done");
    assert_eq!(user.login(), new);
    assert_eq!(user.login_events(&run)[0]["kind"], "login_carried_back");
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(5), "the run stays lost");
    let shown = String::from_utf8(user.stage.output(&["show", &run]).stdout).unwrap();
    assert!(shown.contains("login file has the new tokens"), "{shown}");
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn a_token_refreshed_in_one_run_reaches_the_host_and_the_other_live_runs_immediately() {
    let user = User::new();
    let other = user.stage.root().join("home/other");
    std::fs::create_dir(&other).unwrap();
    let new = token("me", 0, DAY, "new");
    let end = &new[new.len() - 8..];
    // The agent waits for a token other than its first one.
    let wait = format!(
        "shell until grep -q {end} ~/.config/cursor/auth.json; do sleep 0.02; done; cat ~/.config/cursor/auth.json\nsay seen"
    );
    let waiting = user.detach(&wait, &["--workspace", other.to_str().unwrap()]);
    user.stage.wait_until(&waiting, |line| line["kind"] == "agent.tool_started");

    user.leave(login_of(&new).to_string().as_bytes());
    let refreshing = user.detach(&format!("{REPLACE}\n{WAIT_FOR_GO}\nsay done"), &[]);
    assert_eq!(user.stage.output(&["wait", &waiting]).status.code(), Some(0));
    // The run that renewed the token is still alive.
    assert_eq!(user.login(), login_of(&new));
    user.let_go();
    assert_eq!(user.stage.output(&["wait", &refreshing]).status.code(), Some(0));
    assert_eq!(user.login(), login_of(&new));
    for run in [&waiting, &refreshing] {
        let journal = std::fs::read_to_string(user.stage.journal_path(run)).unwrap();
        assert!(!journal.contains(&new), "{journal}");
    }
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn without_a_login_or_with_an_empty_one_nothing_is_started() {
    let user = User::logged_out();
    std::fs::write(user.login_file(), "{}").unwrap();
    let output = user.play("say never");
    assert_exit(&output, 77);
    std::fs::remove_file(user.login_file()).unwrap();
    assert_eq!(user.play("say never").status.code(), Some(77));
    assert_eq!(user.stage.run_ids(), Vec::<String>::new());
}
