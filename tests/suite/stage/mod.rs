//! A home, a workspace and a state directory for one test, where it starts `caretaker` as a user would.

pub(crate) mod browser;
pub(crate) mod daemon_stage;
pub(crate) mod dice;
pub(crate) mod install;
pub(crate) mod namespace;
pub(crate) mod programs;
pub(crate) mod repository;
pub(crate) mod simulated;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;

use crate::stage::programs::program;

/// Limits that are short enough for a test and long enough for a busy machine.
const CONFIG: &str = "\
min_free = \"0\"
[limits]
startup = \"10s\"
idle = \"60s\"
settle = \"1s\"
linger = \"500ms\"
[stop]
term_after = \"300ms\"
kill_after = \"300ms\"
";

pub(crate) struct Stage {
    directory: TempDir,
    /// Makes commands that see the stage's paths under other names.
    command: Option<fn(&Self, &[&str]) -> Command>,
}

/// A journal event: its number, and the whole line.
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) line: Value,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    /// Makes a stage whose paths have the same length on every machine, for output that is cut or wrapped to fit a
    /// terminal.
    pub(crate) fn of_fixed_width() -> Self {
        let made = tempfile::Builder::new().prefix("st").rand_bytes(6).tempdir_in("/tmp");
        Self::in_directory(made.unwrap())
    }

    fn in_directory(directory: TempDir) -> Self {
        let stage = Self { directory, command: None };
        std::fs::create_dir_all(stage.workspace()).unwrap();
        stage.configure(CONFIG);
        stage
    }

    pub(crate) fn seen_as(self, command: fn(&Self, &[&str]) -> Command) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Adds settings to the configuration.
    pub(crate) fn configure_also(&self, more: &str) {
        let config = std::fs::read_to_string(self.home().join(".config/caretaker/config.toml"));
        self.configure(&format!("{}{more}", config.unwrap()));
    }

    pub(crate) fn configure(&self, config: &str) {
        let directory = self.home().join(".config/caretaker");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), config).unwrap();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.home().join("project")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root().join("state/runs")
    }

    /// Returns the ids of all runs, oldest first.
    pub(crate) fn run_ids(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.runs()) else { return Vec::new() };
        let mut ids: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        // The name of a run under construction starts with a dot.
        ids.retain(|id| !id.starts_with('.'));
        ids.sort();
        ids
    }

    pub(crate) fn caretaker(&self, args: &[&str]) -> Command {
        if let Some(command) = self.command {
            return command(self, args);
        }
        let mut command = Command::new(program("caretaker"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("CARETAKER_HOME", self.root().join("state"))
            .env("XDG_RUNTIME_DIR", self.root().join("run"))
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.caretaker(args).output().unwrap()
    }

    /// Runs a command that prints one JSON value and succeeds.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.output(args);
        assert_exit(&output, 0);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts a command with this text on its stdin.
    pub(crate) fn feed(&self, args: &[&str], text: &str) -> Child {
        let mut child = self
            .caretaker(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A refused command does not read its stdin.
        child.stdin.take().unwrap().write_all(text.as_bytes()).ok();
        child
    }

    /// Plays a script with the simulated agent and these flags until the run ends.
    pub(crate) fn play(&self, script: &str, flags: &[&str]) -> Output {
        let mut child = self.start_play(script, flags);
        child.stdin.take();
        child.wait_with_output().unwrap()
    }

    /// Like [`Self::play`], but does not wait.
    pub(crate) fn start_play(&self, script: &str, flags: &[&str]) -> Child {
        let args = [&["run", "--agent", "simulated", "--file", "-"], flags].concat();
        self.feed(&args, &format!("Play this:\n```agent\n{script}\n```\n"))
    }

    /// Starts a script in the background and returns the run's id.
    pub(crate) fn detach(&self, script: &str, flags: &[&str]) -> String {
        let output = self.play(script, &[&["--detach"], flags].concat());
        printed(&output)
    }

    pub(crate) fn journal_path(&self, run: &str) -> PathBuf {
        self.runs().join(run).join("events.jsonl")
    }

    /// Returns all events of a run, read from the file without our own code.
    pub(crate) fn journal(&self, run: &str) -> Vec<Entry> {
        let text = std::fs::read(self.journal_path(run)).unwrap();
        text.split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter_map(|line| Some(Entry { seq: line.get("seq")?.as_u64()?, line }))
            .collect()
    }

    /// Returns the kinds of our own events in a run's journal. Agent events have null.
    pub(crate) fn kinds(&self, run: &str) -> Vec<Value> {
        self.journal(run).into_iter().map(|entry| entry.line["run"]["kind"].clone()).collect()
    }

    /// Returns the `ended` event of the latest run.
    pub(crate) fn ended(&self) -> Value {
        let run = self.run_ids().pop().expect("the stage has a run");
        let last = self.journal(&run).pop().expect("the journal has an event").line;
        assert_eq!(last["run"]["kind"], "ended", "{last}");
        last["run"].clone()
    }

    /// Waits until the journal of a run has an event that matches `is_it`, and returns all events so far.
    pub(crate) fn wait_for(&self, run: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Entry> {
        self.wait_until(run, is_it);
        self.journal(run)
    }

    /// Waits until the journal of a run has an event that matches `is_it`.
    pub(crate) fn wait_until(&self, run: &str, is_it: impl Fn(&Value) -> bool) {
        wait_until(self.caretaker(&["tail", run, "--follow", "--json"]), is_it);
    }

    /// Makes a session in the workspace with one turn.
    pub(crate) fn begin_session(&self) -> String {
        let output = self.play("say The first turn.", &[]);
        assert_exit(&output, 0);
        let run = self.run_ids().pop().unwrap();
        self.session_of(&run)
    }

    /// Resumes a session with a script until the run ends.
    pub(crate) fn resume(&self, session: &str, script: &str, flags: &[&str]) -> Output {
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let args = ["resume", session, &prompt, "--agent", "simulated"];
        self.output(&[&args, flags].concat())
    }

    /// Returns the pid of a run's shim.
    pub(crate) fn shim_pid(&self, run: &str) -> u64 {
        let lock = std::fs::read_to_string(self.runs().join(run).join("run.lock")).unwrap();
        let holder: Value = serde_json::from_str(&lock).unwrap();
        holder["pid"].as_u64().unwrap()
    }

    pub(crate) fn session_of(&self, run: &str) -> String {
        self.journal(run)[0].line["run"]["session"].as_str().unwrap().to_owned()
    }

    /// Returns the directory where Cursor keeps a session of the workspace.
    pub(crate) fn session_dir(&self, session: &str) -> PathBuf {
        let bucket = cursor_home::WorkspacePath::new(&self.workspace()).unwrap().bucket();
        self.home().join(".cursor/chats").join(bucket).join(session)
    }

    /// Checks that no process of this stage is alive. Waits for those that are dying.
    #[track_caller]
    pub(crate) fn assert_no_survivors(&self, what: &str) {
        for (pid, command) in self.processes() {
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
            // The process may have ended meanwhile.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
            let n_ended = poll(&mut fds, Some(&limit)).unwrap();
            assert_eq!(n_ended, 1, "{what}: still alive: {command}");
        }
    }

    /// Returns the processes whose environment or command line names this stage, without zombies.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let mark = self.root();
        let mark = mark.to_str().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap() {
            let process = entry.unwrap().path();
            let name = process.file_name().unwrap().to_str().unwrap();
            let Ok(pid) = name.parse::<i32>() else { continue };
            if is_zombie(&process) {
                continue;
            }
            let says = |file: &str| {
                let bytes = std::fs::read(process.join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(mark)
            };
            if says("cmdline") || says("environ") {
                let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
            }
        }
        found
    }
}

fn is_zombie(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Waits until a `tail --follow --json` prints an event that matches `is_it`.
pub(crate) fn wait_until(mut tail: Command, is_it: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let found = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .inspect(|_: &Value| assert!(Instant::now() < deadline, "the event did not appear"))
        .any(|line| is_it(&line));
    tail.kill().ok();
    tail.wait().unwrap();
    assert!(found, "the run ended without the event");
}

/// Appends the command to a wrapper that already has all its own arguments.
pub(crate) fn wrapped_in(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program());
    with_context_of(wrapper, command)
}

/// Gives a command the arguments, variables and directory of another.
pub(crate) fn with_context_of(mut wrapper: Command, command: &Command) -> Command {
    wrapper
        .args(command.get_args())
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::null());
    wrapper
}

/// Checks the exit code of a command. A failure shows its stderr.
#[track_caller]
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}

/// Returns the trimmed output of a command that must succeed.
#[track_caller]
pub(crate) fn printed(output: &Output) -> String {
    assert_exit(output, 0);
    stdout(output).trim().to_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Parses each line of a command's output as JSON.
pub(crate) fn json_lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
