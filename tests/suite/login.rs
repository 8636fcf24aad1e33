//! Runs that log in with the user's own login file: a private copy goes in, and only refreshed tokens come back.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::programs::program;
use crate::stage::{Stage, stderr};

const ACCESS: &str = "access-0123456789abcdef";
const REFRESH: &str = "refresh-0123456789abcdef";

/// Writes new tokens, and something else that is none of its business.
const REFRESH_IT: &str = r#"shell printf '{"accessToken":"access-new","refreshToken":"refresh-new","userId":"evil"}' > ~/.config/cursor/auth.json"#;
/// Goes on when the test says so.
const WAIT_FOR_GO: &str = "shell while [ ! -e go ]; do sleep 0.02; done";

/// A user who has installed the agent and logged in.
struct User {
    stage: Stage,
    agent: String,
}

impl User {
    fn new() -> Self {
        let stage = Stage::new();
        let version = stage.home().join(".local/share/cursor-agent/versions/2026.10.01-abc1234");
        std::fs::create_dir_all(&version).unwrap();
        let agent = version.join("cursor-agent");
        std::fs::copy(program("simulated-agent"), &agent).unwrap();
        let agent = agent.to_str().unwrap().to_owned();
        let user = Self { stage, agent };
        std::fs::create_dir_all(user.login_file().parent().unwrap()).unwrap();
        user.log_in(ACCESS);
        user
    }

    fn login_file(&self) -> PathBuf {
        self.stage.home().join(".config/cursor/auth.json")
    }

    fn log_in(&self, access: &str) {
        let login = json!({"accessToken": access, "refreshToken": REFRESH, "userId": "me"});
        std::fs::write(self.login_file(), login.to_string()).unwrap();
    }

    fn login(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.login_file()).unwrap()).unwrap()
    }

    fn command(&self, script: &str, flags: &[&str]) -> Command {
        let prompt = format!("```agent\n{script}\n```\n");
        let run = ["run", "--agent", &self.agent, &prompt];
        let mut command = self.stage.caretaker(&[&run, flags].concat());
        command.stdin(Stdio::null());
        command
    }

    fn play(&self, script: &str) -> Output {
        self.command(script, &[]).output().unwrap()
    }

    /// Starts a run that has refreshed its login and waits for `go`.
    fn start_refreshed(&self) -> String {
        let script = format!("{REFRESH_IT}\n{WAIT_FOR_GO}\nsay done");
        let output = self.command(&script, &["--detach"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        self.stage.wait_until(&run, |line| {
            line["kind"] == "agent.tool_started" && line.to_string().contains("while")
        });
        run
    }

    fn check_that_nothing_is_left_of_the_copy(&self) {
        for run in self.stage.run_ids() {
            assert!(!self.stage.runs().join(&run).join("login").exists(), "{run}");
        }
        let beside = std::fs::read_dir(self.login_file().parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1);
    }
}

#[test]
fn a_run_logs_in_with_a_copy_and_refreshed_tokens_come_back_alone() {
    let user = User::new();
    let script = format!("shell cat ~/.config/cursor/auth.json\n{REFRESH_IT}\nsay done");
    let output = user.play(&script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        user.login(),
        json!({"accessToken": "access-new", "refreshToken": "refresh-new", "userId": "me"})
    );
    let mode = std::fs::metadata(user.login_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let run = user.stage.run_ids().pop().unwrap();
    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    for secret in [ACCESS, REFRESH] {
        assert!(!journal.contains(secret), "{journal}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains(secret));
    }
    assert!(journal.contains("[redacted]") && journal.contains("\"apiKeySource\":\"login\""));
    user.check_that_nothing_is_left_of_the_copy();
    user.stage.assert_no_survivors("after the run");
}

#[test]
fn a_token_that_the_agent_refreshed_is_kept_out_of_the_journal_too() {
    let user = User::new();
    let token = "access.refreshed-0123456789abcdef";
    let write = format!(
        r#"printf '{{"accessToken":"%s","refreshToken":"{REFRESH}"}}' $(cat token) > ~/.config/cursor/auth.json"#
    );
    std::fs::write(user.stage.workspace().join("token"), token).unwrap();
    let script = format!("shell {write}\nshell cat ~/.config/cursor/auth.json\nsay done");
    let output = user.play(&script);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = user.stage.run_ids().pop().unwrap();
    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    assert!(!journal.contains(token), "{journal}");
    let redacted = user.stage.journal(&run).into_iter().filter(|entry| {
        entry.line["redacted"] == true && entry.line.to_string().contains("cat ~/.config")
    });
    assert!(redacted.count() > 0, "{journal}");
    assert_eq!(user.login()["accessToken"], token, "and the user has it");
}

#[test]
fn a_key_is_preferred_and_the_login_stays_outside() {
    let user = User::new();
    let output = user
        .command("shell ls ~/.config/cursor; true\nsay done", &[])
        .env("CURSOR_API_KEY", "key_0123456789abcdef")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = user.stage.run_ids().pop().unwrap();
    let journal = std::fs::read_to_string(user.stage.journal_path(&run)).unwrap();
    assert!(!journal.contains("auth.json"), "{journal}");
    assert!(journal.contains("\"apiKeySource\":\"env\""));
}

#[test]
fn who_logged_in_anew_meanwhile_keeps_that_login() {
    let user = User::new();
    let run = user.start_refreshed();
    user.log_in("access-by-the-user");
    std::fs::write(user.stage.workspace().join("go"), "").unwrap();
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(0));
    assert_eq!(user.login()["accessToken"], "access-by-the-user");
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn tokens_that_were_refreshed_before_the_shim_was_killed_are_not_lost() {
    let user = User::new();
    let run = user.start_refreshed();
    let lock = std::fs::read(user.stage.runs().join(&run).join("run.lock")).unwrap();
    let holder: Value = serde_json::from_slice(&lock).unwrap();
    let killed = Command::new("kill").args(["-KILL", &holder["pid"].to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(user.stage.output(&["wait", &run]).status.code(), Some(5));

    // It was given back at once, or is by the next run in the workspace, which clears up.
    let output = user.play("say done");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(user.login()["accessToken"], "access-new");
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn a_token_refreshed_in_one_run_reaches_the_host_and_the_living_others_at_once() {
    let user = User::new();
    let other = user.stage.root().join("home/other");
    std::fs::create_dir(&other).unwrap();
    // It waits for the token that it was not started with.
    let wait = "shell until grep -q access.fresh- ~/.config/cursor/auth.json; do sleep 0.02; done; cat ~/.config/cursor/auth.json\nsay seen";
    let waiting =
        user.command(wait, &["--detach", "--workspace", other.to_str().unwrap()]).output().unwrap();
    assert!(waiting.status.success(), "{}", stderr(&waiting));
    let waiting = String::from_utf8(waiting.stdout).unwrap().trim().to_owned();
    user.stage.wait_until(&waiting, |line| line["kind"] == "agent.tool_started");

    let refresh = r#"printf '{"accessToken":"%s","userId":"evil"}' $(cat token) > ~/.config/cursor/auth.json"#;
    let token = "access.fresh-0123456789abcdef";
    std::fs::write(user.stage.workspace().join("token"), token).unwrap();
    let script = format!("shell {refresh}\n{WAIT_FOR_GO}\nsay done");
    let refreshing = user.command(&script, &["--detach"]).output().unwrap();
    assert!(refreshing.status.success(), "{}", stderr(&refreshing));
    let refreshing = String::from_utf8(refreshing.stdout).unwrap().trim().to_owned();

    assert_eq!(user.stage.output(&["wait", &waiting]).status.code(), Some(0));
    // The run that refreshed it lives still.
    assert_eq!(
        user.login(),
        json!({"accessToken": token, "refreshToken": REFRESH, "userId": "me"})
    );
    std::fs::write(user.stage.workspace().join("go"), "").unwrap();
    assert_eq!(user.stage.output(&["wait", &refreshing]).status.code(), Some(0));
    assert_eq!(user.login()["accessToken"], token);
    for run in [&waiting, &refreshing] {
        let journal = std::fs::read_to_string(user.stage.journal_path(run)).unwrap();
        assert!(!journal.contains(token), "{journal}");
    }
    user.check_that_nothing_is_left_of_the_copy();
}

#[test]
fn without_a_login_or_with_an_empty_one_nothing_is_started() {
    let user = User::new();
    std::fs::write(user.login_file(), "{}").unwrap();
    let output = user.play("say never");
    assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
    std::fs::remove_file(user.login_file()).unwrap();
    assert_eq!(user.play("say never").status.code(), Some(77));
    assert_eq!(user.stage.run_ids(), Vec::<String>::new());
}
