//! Each test's own home and workspace, and the agent in them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_simulated-agent");

pub(crate) const NORMAL: &[&str] = &["-p", "--output-format", "stream-json", "--trust"];
pub(crate) const FORCED: &[&str] = &["-p", "--output-format", "stream-json", "--force"];

pub(crate) struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["home", "workspace"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        fs::canonicalize(self.root.path().join("workspace")).unwrap()
    }

    /// Returns the workspace's directory below `projects/`.
    pub(crate) fn project(&self) -> PathBuf {
        let workspace = cursor_home::WorkspacePath::new(&self.workspace()).unwrap();
        self.home().join(".cursor/projects").join(workspace.slug())
    }

    /// Returns the agent's command with a clean environment, logged in with a key.
    pub(crate) fn agent(&self, arguments: &[&str]) -> Command {
        let mut command = self.stranger(arguments);
        command.env("CURSOR_API_KEY", "key_simulated");
        command
    }

    /// Returns the agent's command without a login.
    pub(crate) fn stranger(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(AGENT);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Plays a script until it ends.
    pub(crate) fn play(&self, arguments: &[&str], script: &str) -> Finished {
        finish(self.agent(arguments), &prompt(script))
    }
}

/// Returns a prompt that contains a script.
pub(crate) fn prompt(script: &str) -> String {
    format!("````agent\n{script}\n````")
}

/// The output and the exit status of a process.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command with this text on stdin until it ends.
pub(crate) fn finish(mut command: Command, stdin: &str) -> Finished {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // An agent that fails early does not read it.
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
    let output = child.wait_with_output().unwrap();
    Finished {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Finished {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns all lines, each of which must be JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the answer of a successful run.
    pub(crate) fn answer(&self) -> String {
        assert_eq!(self.code(), Some(0), "{}", self.stderr);
        let events = self.events();
        let result = events.last().unwrap();
        assert_eq!(name(result), "result/success");
        result["result"].as_str().unwrap().to_owned()
    }

    pub(crate) fn session_id(&self) -> String {
        self.events()[0]["session_id"].as_str().unwrap().to_owned()
    }

    /// Returns `type/subtype` of each event.
    pub(crate) fn names(&self) -> Vec<String> {
        self.events().iter().map(name).collect()
    }

    pub(crate) fn has_result(&self) -> bool {
        self.stdout.contains("\"type\":\"result\"")
    }
}

pub(crate) fn name(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    match word("subtype").as_str() {
        "" => word("type"),
        subtype => format!("{}/{subtype}", word("type")),
    }
}

/// A running process, read line by line. Dropping it kills the process.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a script; stdin is closed.
    pub(crate) fn script(sandbox: &Sandbox, arguments: &[&str], script: &str) -> Self {
        let mut running = Self::start(sandbox.agent(arguments));
        let mut stdin = running.child.stdin.take().unwrap();
        stdin.write_all(prompt(script).as_bytes()).unwrap();
        running
    }

    /// Starts a command; stdin is left open.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Reads up to the first event with this name.
    pub(crate) fn wait_for(&mut self, wanted: &str) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "no {wanted} came");
            let event: Value = serde_json::from_str(&line).unwrap();
            if name(&event) == wanted {
                return event;
            }
        }
    }

    /// Takes the stream, and leaves an empty stream in its place.
    pub(crate) fn take_stdout(&mut self) -> BufReader<ChildStdout> {
        let mut silent = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let ended = BufReader::new(silent.stdout.take().unwrap());
        silent.wait().unwrap();
        std::mem::replace(&mut self.stdout, ended)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits until the agent exits. Returns the status and the remaining output.
    pub(crate) fn end(&mut self) -> Finished {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Finished { status: self.child.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Makes a named pipe: opening it waits for the other end, and it ends when all writers are gone.
pub(crate) fn fifo(directory: &Path) -> PathBuf {
    let path = directory.join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    path
}
