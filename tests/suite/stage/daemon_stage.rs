//! A stage with a daemon, and an API client that knows only HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::stage::{Stage, assert_exit};

/// Dropping it ends the daemon and deletes the stage.
pub(crate) struct DaemonStage {
    stage: Stage,
}

impl Deref for DaemonStage {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Drop for DaemonStage {
    fn drop(&mut self) {
        let stopped = self.stage.output(&["daemon", "stop"]);
        if !std::thread::panicking() {
            assert_exit(&stopped, 0);
        }
    }
}

impl DaemonStage {
    /// Starts a daemon that runs at most `cap` runs at a time.
    pub(crate) fn new(cap: u32) -> Self {
        let stage = Self::without_daemon(cap);
        stage.start_daemon();
        stage
    }

    pub(crate) fn without_daemon(cap: u32) -> Self {
        Self::on(Stage::new(), cap)
    }

    /// Prepares a daemon for an existing stage, without starting it.
    pub(crate) fn on(stage: Stage, cap: u32) -> Self {
        let config = std::fs::read_to_string(stage.home().join(".config/caretaker/config.toml"));
        stage.configure(&format!("{}[queue]\ncap = {cap}\n", config.unwrap()));
        Self { stage }
    }

    pub(crate) fn start_daemon(&self) -> Value {
        self.json(&["daemon", "start", "--json"])
    }

    /// Returns the content of the daemon's lock file.
    pub(crate) fn daemon_note(&self) -> Value {
        let lock = std::fs::read(self.root().join("state/daemon.lock")).unwrap();
        serde_json::from_slice(&lock).unwrap()
    }

    /// Kills the daemon, and waits until none of its processes is left.
    pub(crate) fn kill_daemon(&self) {
        let pid = i32::try_from(self.daemon_note()["pid"].as_i64().unwrap()).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&process, Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
    }

    /// Creates a workspace.
    pub(crate) fn new_workspace(&self, name: &str) -> PathBuf {
        let workspace = self.home().join(name);
        std::fs::create_dir_all(&workspace).unwrap();
        workspace
    }

    /// Queues a script through the command line, in a workspace with this name, and returns the run's id.
    pub(crate) fn queue(&self, workspace: &str, script: &str, flags: &[&str]) -> String {
        let workspace = self.new_workspace(workspace);
        let flags = [&["--workspace", workspace.to_str().unwrap()], flags].concat();
        self.detach(script, &flags)
    }

    pub(crate) fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.daemon_note()["socket"].as_str().unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = exchange(self.connect().unwrap(), method, path, &[], body);
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// Follows events after `last`.
    pub(crate) fn follow(&self, path: &str, last: Option<&str>) -> std::io::Result<Events> {
        Events::open(self.connect()?, path, last)
    }

    pub(crate) fn why(&self, run: &str) -> String {
        let output = self.output(&["why", run]);
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits for the end of a run, and returns its exit code.
    pub(crate) fn wait_for_end(&self, run: &str) -> Option<i32> {
        self.output(&["wait", run, "--timeout", "10m"]).status.code()
    }

    /// Counts our own events of each kind in a journal.
    pub(crate) fn kinds(&self, run: &str) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for entry in self.journal(run) {
            if let Some(kind) = entry.line["run"]["kind"].as_str() {
                *kinds.entry(kind.to_owned()).or_default() += 1;
            }
        }
        kinds
    }
}

/// Sends one request on its own connection, with HTTP/1.0, so that the response ends with the connection.
pub(crate) fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut request = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// A stream of server-sent events.
pub(crate) struct Events {
    lines: BufReader<UnixStream>,
    pub(crate) status: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Events {
    fn open(mut stream: UnixStream, path: &str, last: Option<&str>) -> std::io::Result<Self> {
        let last = last.map_or(String::new(), |last| format!("last-event-id: {last}\r\n"));
        stream.write_all(format!("GET {path} HTTP/1.0\r\n{last}\r\n").as_bytes())?;
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(gone)?;
        while line.trim() != "" {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err(gone());
            }
        }
        Ok(Self { lines, status })
    }
}

impl Iterator for Events {
    type Item = Event;

    /// Returns `None` at the end of the stream, even if the stream ends inside an event.
    fn next(&mut self) -> Option<Event> {
        let (mut id, mut data) = (None, None);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 || !line.ends_with('\n') {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                _ => {}
            }
            if line == "\n"
                && let Some(data) = data.take()
            {
                return Some(Event { id, data });
            }
        }
    }
}
