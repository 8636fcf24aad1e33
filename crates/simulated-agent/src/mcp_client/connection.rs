//! One MCP server over stdin and stdout: JSON-RPC, one message a line.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde_json::{Value, json};

use super::McpTool;
use crate::tools::{Exit, Launch, ProcessGroups, Role, Stdio};

/// The newest version that Cursor's client is known to speak.
const PROTOCOL_VERSION: &str = "2025-11-25";
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// A server that leaves this many messages unread is not listening.
const MAX_UNSENT: usize = 64;
const MAX_TOOL_PAGES: usize = 50;
/// A server that does not end when its stdin does is killed after this.
const FAREWELL: Duration = Duration::from_millis(500);

/// Why a request has no answer, in the words of the protocol's own SDK, which the real agent uses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error(transparent)]
    NotStarted(#[from] io::Error),
    #[error("MCP error -32001: Request timed out")]
    TimedOut,
    #[error("MCP error -32000: Connection closed")]
    Closed,
    #[error("the server does not read what it is sent")]
    NotReading,
    #[error("MCP error {code}: {message}")]
    Refused { code: i64, message: String },
}

type Answer = Result<Value, RequestError>;

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct Connection {
    outbox: Outbox,
    waiting: Arc<Mutex<Waiting>>,
    next_id: AtomicU64,
    leader: Pid,
    processes: ProcessGroups,
    exited: Mutex<Receiver<Exit>>,
}

/// Requests whose answers are awaited.
#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u64, Sender<Answer>>,
    closed: bool,
}

/// Lines for the server, written by a thread of their own: a full pipe must not hold up whoever waits for an answer.
#[derive(Debug, Clone)]
struct Outbox {
    lines: Arc<Mutex<Option<SyncSender<String>>>>,
}

impl Connection {
    /// Starts a server, shakes hands and asks for its tools, all within the limit.
    pub(super) fn open(
        program: &OsStr,
        args: &[OsString],
        env: &[(OsString, OsString)],
        directory: &Path,
        processes: &ProcessGroups,
        limit: Duration,
    ) -> Result<(Self, Vec<McpTool>), RequestError> {
        let started = Instant::now();
        // What the server says on stderr is its own affair.
        let launch =
            Launch { program, args, env, directory, stdin: Stdio::Pipe, stderr: Stdio::Null };
        let connection = Self::start(&launch, processes)?;
        let left = || limit.saturating_sub(started.elapsed());
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "simulated-agent", "version": env!("CARGO_PKG_VERSION")},
        });
        connection.request("initialize", hello, left())?;
        connection
            .outbox
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        let tools = connection.tools(left)?;
        Ok((connection, tools))
    }

    fn start(launch: &Launch<'_>, processes: &ProcessGroups) -> Result<Self, RequestError> {
        let (group, pipes) = processes.start(launch, Role::Server)?;
        let leader = group.leader();
        let (lines, to_write) = mpsc::sync_channel::<String>(MAX_UNSENT);
        let outbox = Outbox { lines: Arc::new(Mutex::new(Some(lines))) };
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        if let Some(mut stdin) = pipes.stdin {
            thread::spawn(move || {
                // Ends when the last sender is gone, and closes the pipe with that.
                to_write.iter().try_for_each(|line| stdin.write_all(line.as_bytes())).ok();
            });
        }
        let reader = Reader { outbox: outbox.clone(), waiting: Arc::clone(&waiting) };
        thread::spawn(move || reader.run(pipes.stdout));
        let (exit, exited) = mpsc::channel();
        thread::spawn(move || exit.send(group.wait(|| {})).ok());
        let (processes, exited) = (processes.clone(), Mutex::new(exited));
        Ok(Self { outbox, waiting, next_id: AtomicU64::new(1), leader, processes, exited })
    }

    fn tools(&self, left: impl Fn() -> Duration) -> Result<Vec<McpTool>, RequestError> {
        let mut tools = Vec::new();
        let mut params = json!({});
        for _ in 0..MAX_TOOL_PAGES {
            let page = self.request("tools/list", params, left())?;
            tools.extend(page["tools"].as_array().into_iter().flatten().filter_map(tool));
            match page.get("nextCursor") {
                Some(Value::String(cursor)) => params = json!({"cursor": cursor}),
                _ => break,
            }
        }
        Ok(tools)
    }

    /// Sends a request and waits for its answer. Safe to call from several threads at once.
    pub(super) fn request(&self, method: &str, params: Value, limit: Duration) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = mpsc::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                return Err(RequestError::Closed);
            }
            waiting.answers.insert(id, answer);
        }
        let sent = self
            .outbox
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let result = sent.and_then(|()| match answered.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(RequestError::Closed),
            Err(RecvTimeoutError::Timeout) => {
                let params = json!({"requestId": id, "reason": "timed out"});
                let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                self.outbox.send(&cancelled).ok();
                Err(RequestError::TimedOut)
            }
        });
        lock(&self.waiting).answers.remove(&id);
        result
    }

    /// Closes the server's stdin, which asks it to end.
    pub(super) fn hang_up(&self) {
        lock(&self.outbox.lines).take();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hang_up();
        let exited = self.exited.get_mut().unwrap_or_else(PoisonError::into_inner);
        if exited.recv_timeout(FAREWELL).is_err() {
            self.processes.kill(self.leader);
            exited.recv_timeout(FAREWELL).ok();
        }
    }
}

impl Outbox {
    fn send(&self, message: &Value) -> Result<(), RequestError> {
        let lines = lock(&self.lines);
        let Some(lines) = lines.as_ref() else { return Err(RequestError::Closed) };
        lines.try_send(format!("{message}\n")).map_err(|err| match err {
            mpsc::TrySendError::Full(_) => RequestError::NotReading,
            mpsc::TrySendError::Disconnected(_) => RequestError::Closed,
        })
    }
}

/// Hands answers to whoever waits for them, until the server closes its stdout.
struct Reader {
    outbox: Outbox,
    waiting: Arc<Mutex<Waiting>>,
}

impl Reader {
    fn run(&self, stdout: PipeReader) {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while let Ok(n_read) = stdout.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            // The end of the pipe, in the middle of a line or not, or a line without end.
            if n_read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            // What is not JSON is talk that went to the wrong stream.
            if let Ok(message) = serde_json::from_slice::<Value>(&line) {
                self.take(&message);
            }
            line.clear();
        }
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        // Dropping the senders wakes those who wait.
        waiting.answers.clear();
    }

    fn take(&self, message: &Value) {
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.reply(method, id),
            (Some(_notification), None) => {}
            (None, id) => {
                let Some(id) = id.and_then(Value::as_u64) else { return };
                let Some(answer) = lock(&self.waiting).answers.remove(&id) else { return };
                answer.send(result(message)).ok();
            }
        }
    }

    /// Servers may ask, too. The only question that is answered is whether we are there.
    fn reply(&self, method: &str, id: &Value) {
        let reply = if method == "ping" {
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        } else {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}})
        };
        self.outbox.send(&reply).ok();
    }
}

fn result(message: &Value) -> Answer {
    if let Some(result) = message.get("result") {
        return Ok(result.clone());
    }
    let error = &message["error"];
    let text = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
    Err(RequestError::Refused { code: error["code"].as_i64().unwrap_or_default(), message: text })
}

fn tool(value: &Value) -> Option<McpTool> {
    let name = value["name"].as_str()?.to_owned();
    let description = value["description"].as_str().unwrap_or_default().to_owned();
    Some(McpTool { name, description, input_schema: value["inputSchema"].clone() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
