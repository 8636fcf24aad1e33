//! A user who has installed the agent and logged in, and logins with which an agent may replace the user's.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::programs::program;
use crate::stage::{Stage, assert_exit};

pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 24 * HOUR;
/// Replaces the login with the one that the test left in the workspace.
pub(crate) const REPLACE: &str = "shell cp new-login.json ~/.config/cursor/auth.json.new && mv ~/.config/cursor/auth.json.new ~/.config/cursor/auth.json";
/// Waits until the test creates `go`.
pub(crate) const WAIT_FOR_GO: &str = "shell while [ ! -e go ]; do sleep 0.02; done";

/// Returns a token in the format of Cursor's server: a header, the claims, and a signature that only the server can
/// check. `issued` and `expires` are seconds from now.
pub(crate) fn token(account: &str, issued: i64, expires: i64, mark: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    token_of(account, now + issued, now + expires, mark)
}

/// Like [`token`], but with seconds since 1970.
pub(crate) fn token_of(account: &str, issued: i64, expires: i64, mark: &str) -> String {
    let says = json!({
        "sub": account,
        "iss": "https://authentication.example",
        "time": issued.to_string(),
        "exp": expires,
        "randomness": mark,
    });
    let part = |text: &str| base64url(text.as_bytes());
    format!("{}.{}.{}", part(r#"{"alg":"HS256"}"#), part(&says.to_string()), part(mark))
}

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(char::from(letter));
        }
    }
    text
}

/// Returns a login file with both tokens, as Cursor writes it.
pub(crate) fn login_of(token: &str) -> Value {
    json!({"accessToken": token, "refreshToken": token})
}

pub(crate) struct User {
    pub(crate) stage: Stage,
    agent: String,
}

impl User {
    /// Makes a user who is logged in with a one-day token that is valid for one more hour.
    pub(crate) fn new() -> Self {
        let user = Self::logged_out();
        user.log_in(&login_of(&token("me", HOUR - DAY, HOUR, "of-the-user")));
        user
    }

    pub(crate) fn logged_out() -> Self {
        let stage = Stage::new();
        let version = stage.home().join(".local/share/cursor-agent/versions/2026.10.01-abc1234");
        std::fs::create_dir_all(&version).unwrap();
        let agent = version.join("cursor-agent");
        std::fs::copy(program("simulated-agent"), &agent).unwrap();
        let agent = agent.to_str().unwrap().to_owned();
        let user = Self { stage, agent };
        std::fs::create_dir_all(user.login_file().parent().unwrap()).unwrap();
        user
    }

    pub(crate) fn login_file(&self) -> PathBuf {
        self.stage.home().join(".config/cursor/auth.json")
    }

    pub(crate) fn log_in(&self, login: &Value) {
        std::fs::write(self.login_file(), login.to_string()).unwrap();
    }

    pub(crate) fn login(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.login_file()).unwrap()).unwrap()
    }

    /// Puts a login into the workspace for the agent.
    pub(crate) fn leave(&self, login: &[u8]) {
        std::fs::write(self.stage.workspace().join("new-login.json"), login).unwrap();
    }

    pub(crate) fn command(&self, script: &str, flags: &[&str]) -> Command {
        let prompt = format!("```agent\n{script}\n```\n");
        let run = ["run", "--agent", &self.agent, &prompt];
        let mut command = self.stage.caretaker(&[&run, flags].concat());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn play(&self, script: &str) -> Output {
        self.command(script, &[]).output().unwrap()
    }

    /// Plays a script, which must succeed. Returns the run and its output.
    pub(crate) fn play_well(&self, script: &str) -> (String, Output) {
        let output = self.play(script);
        assert_exit(&output, 0);
        (self.stage.run_ids().pop().unwrap(), output)
    }

    pub(crate) fn detach(&self, script: &str, flags: &[&str]) -> String {
        let output = self.command(script, &[&["--detach"], flags].concat()).output().unwrap();
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Starts a run that has replaced its login and waits for `go`.
    pub(crate) fn start_replaced(&self) -> String {
        let run = self.detach(&format!("{REPLACE}\n{WAIT_FOR_GO}\nsay done"), &[]);
        self.stage.wait_until(&run, |line| {
            line["kind"] == "agent.tool_started" && line.to_string().contains("while")
        });
        run
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(self.stage.workspace().join("go"), "").unwrap();
    }

    /// Returns a run's login events.
    pub(crate) fn login_events(&self, run: &str) -> Vec<Value> {
        let events = self.stage.journal(run).into_iter().map(|entry| entry.line["run"].clone());
        events
            .filter(|event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("login_")))
            .collect()
    }

    pub(crate) fn check_that_nothing_is_left_of_the_copy(&self) {
        for run in self.stage.run_ids() {
            assert!(!self.stage.runs().join(&run).join("login").exists(), "{run}");
        }
        let beside = std::fs::read_dir(self.login_file().parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1);
    }
}
