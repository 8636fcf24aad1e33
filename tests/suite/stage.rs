//! A home, a workspace and a state directory of their own, and `caretaker` started in them as a user would.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;

use crate::programs::program;

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
    /// How commands are started that are to see its paths under other names.
    command: Option<fn(&Self, &[&str]) -> Command>,
}

/// One event of a journal: its number, and the whole line.
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) line: Value,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    /// A stage whose paths are as long on every machine, for what is cut or wrapped to fit a terminal.
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

    /// The ids of all runs, oldest first.
    pub(crate) fn run_ids(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.runs()) else { return Vec::new() };
        let mut ids: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        // What is still being made has a name that begins with a dot.
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

    /// Runs a command to its end.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.caretaker(args).output().unwrap()
    }

    /// Runs the simulated agent on a script, with further flags, to the run's end.
    pub(crate) fn play(&self, script: &str, flags: &[&str]) -> Output {
        let mut child = self.start_play(script, flags);
        child.stdin.take();
        child.wait_with_output().unwrap()
    }

    /// The same, without waiting.
    pub(crate) fn start_play(&self, script: &str, flags: &[&str]) -> Child {
        let mut args = vec!["run", "--agent", "simulated", "--file", "-"];
        args.extend(flags);
        let mut child = self
            .caretaker(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        // A run that is refused does not read its prompt.
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).ok();
        child
    }

    /// Starts a script in the background and returns the run's id.
    pub(crate) fn detach(&self, script: &str, flags: &[&str]) -> String {
        let output = self.play(script, &[&["--detach"], flags].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn journal_path(&self, run: &str) -> PathBuf {
        self.runs().join(run).join("events.jsonl")
    }

    /// All events of a run, read from the file without any code of ours.
    pub(crate) fn journal(&self, run: &str) -> Vec<Entry> {
        let text = std::fs::read(self.journal_path(run)).unwrap();
        text.split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
            .filter_map(|line| Some(Entry { seq: line.get("seq")?.as_u64()?, line }))
            .collect()
    }

    /// The `ended` event of the latest run.
    pub(crate) fn ended(&self) -> Value {
        let run = self.run_ids().pop().expect("there is a run");
        let last = self.journal(&run).pop().expect("there is an event").line;
        assert_eq!(last["run"]["kind"], "ended", "{last}");
        last["run"].clone()
    }

    /// Waits until the journal of a run holds an event that `is_it` knows, and returns all that is there then.
    pub(crate) fn wait_for(&self, run: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Entry> {
        self.wait_until(run, is_it);
        self.journal(run)
    }

    /// Waits until the journal of a run holds an event that `is_it` knows.
    pub(crate) fn wait_until(&self, run: &str, is_it: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut tail = self
            .caretaker(&["tail", run, "--follow", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let found = lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .inspect(|_: &Value| assert!(Instant::now() < deadline, "the event did not come"))
            .any(|line| is_it(&line));
        tail.kill().ok();
        tail.wait().unwrap();
        assert!(found, "the run ended without the event");
    }

    /// A session of the workspace with one turn in it.
    pub(crate) fn begin_session(&self) -> String {
        let output = self.play("say The first turn.", &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        let run = self.run_ids().pop().unwrap();
        self.session_of(&run)
    }

    /// Continues a session on a script, to the run's end.
    pub(crate) fn resume(&self, session: &str, script: &str, flags: &[&str]) -> Output {
        let prompt = format!("Play this:\n```agent\n{script}\n```\n");
        let args = ["resume", session, &prompt, "--agent", "simulated"];
        self.output(&[&args, flags].concat())
    }

    /// The supervisor of a run.
    pub(crate) fn shim_pid(&self, run: &str) -> u64 {
        let lock = std::fs::read_to_string(self.runs().join(run).join("run.lock")).unwrap();
        let holder: Value = serde_json::from_str(&lock).unwrap();
        holder["pid"].as_u64().unwrap()
    }

    /// The session of a run.
    pub(crate) fn session_of(&self, run: &str) -> String {
        self.journal(run)[0].line["run"]["session"].as_str().unwrap().to_owned()
    }

    /// Where Cursor keeps a session of the workspace.
    pub(crate) fn session_dir(&self, session: &str) -> PathBuf {
        let bucket = cursor_home::WorkspacePath::new(&self.workspace()).unwrap().bucket();
        self.home().join(".cursor/chats").join(bucket).join(session)
    }

    /// Nothing that belongs to this stage lives on. What is dying already is given the time to die.
    #[track_caller]
    pub(crate) fn assert_no_survivors(&self, what: &str) {
        for (pid, command) in self.processes() {
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
            // Gone between the look and the call is gone too.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
            let n_ended = poll(&mut fds, Some(&limit)).unwrap();
            assert_eq!(n_ended, 1, "{what}: still alive: {command}");
        }
    }

    /// Processes whose environment or command line names this stage, zombies left out.
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

/// What a command said on stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
