//! One MCP server that is a program: messages go over stdin and stdout, one per line.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;
use serde_json::Value;

use super::protocol::{self, Answer, Connection, Incoming, MAX_MESSAGE_BYTES, RequestError};
use crate::process::groups::{ProcessGroups, Role};
use crate::process::lock;

/// A server that leaves this many messages unread counts as unresponsive.
const MAX_UNSENT: usize = 64;
/// The agent kills a server that runs longer than this after its stdin was closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct Program {
    outbox: Outbox,
    waiting: Arc<Mutex<Waiting>>,
    next_id: AtomicU64,
    leader: Pid,
    processes: ProcessGroups,
    exited: Mutex<Receiver<io::Result<ExitStatus>>>,
}

/// Requests that have no answer yet.
#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u64, Sender<Answer>>,
    closed: bool,
}

/// Lines for the server. A separate thread writes them, because a full pipe must not block the thread that waits for an
/// answer.
#[derive(Debug, Clone)]
struct Outbox {
    lines: Arc<Mutex<Option<SyncSender<String>>>>,
}

impl Program {
    pub(super) fn start(
        command: &mut Command,
        processes: &ProcessGroups,
    ) -> Result<Self, RequestError> {
        // The real agent treats a program that does not start like one that ended immediately.
        let closed = |_| RequestError::Closed;
        let mut group = processes.start(command, Role::Server).map_err(closed)?;
        let leader = group.leader();
        let (lines, to_write) = mpsc::sync_channel::<String>(MAX_UNSENT);
        let outbox = Outbox { lines: Arc::new(Mutex::new(Some(lines))) };
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        if let Some(mut stdin) = group.child.stdin.take() {
            thread::spawn(move || {
                // The thread ends when the last sender is gone, and then closes the pipe.
                to_write.iter().try_for_each(|line| stdin.write_all(line.as_bytes())).ok();
            });
        }
        let reader = Reader { outbox: outbox.clone(), waiting: Arc::clone(&waiting) };
        let stdout = group.child.stdout.take().ok_or(RequestError::Closed)?;
        thread::spawn(move || reader.run(stdout));
        let (exit, exited) = mpsc::channel();
        thread::spawn(move || exit.send(group.wait(|| {})).ok());
        let (processes, exited) = (processes.clone(), Mutex::new(exited));
        Ok(Self { outbox, waiting, next_id: AtomicU64::new(1), leader, processes, exited })
    }
}

impl Connection for Program {
    fn request(&self, method: &str, params: Value, limit: Duration) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = mpsc::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.closed {
                return Err(RequestError::Closed);
            }
            waiting.answers.insert(id, answer);
        }
        let sent = self.outbox.send(&protocol::request(id, method, &params));
        let result = sent.and_then(|()| match answered.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(RequestError::Closed),
            Err(RecvTimeoutError::Timeout) => {
                self.notify("notifications/cancelled", protocol::cancelled(id), limit).ok();
                Err(RequestError::TimedOut)
            }
        });
        lock(&self.waiting).answers.remove(&id);
        result
    }

    fn notify(&self, method: &str, params: Value, _limit: Duration) -> Result<(), RequestError> {
        self.outbox.send(&protocol::notification(method, &params))
    }

    /// Closes the server's stdin, which asks the server to end.
    fn hang_up(&self) {
        lock(&self.outbox.lines).take();
    }
}

impl Drop for Program {
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

/// Hands answers to the threads that are waiting for them, until the server closes its stdout.
struct Reader {
    outbox: Outbox,
    waiting: Arc<Mutex<Waiting>>,
}

impl Reader {
    fn run(&self, stdout: ChildStdout) {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while let Ok(n_read) = stdout.by_ref().take(MAX_MESSAGE_BYTES).read_until(b'\n', &mut line)
        {
            // The pipe ended, perhaps in the middle of a line, or the line is too long.
            if n_read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            // A line that is not JSON is log output on the wrong stream.
            if let Ok(message) = serde_json::from_slice::<Value>(&line) {
                self.take(&message);
            }
            line.clear();
        }
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        // Dropping the senders wakes the waiting threads.
        waiting.answers.clear();
    }

    fn take(&self, message: &Value) {
        match Incoming::of(message) {
            Incoming::Question { reply } => {
                self.outbox.send(&reply).ok();
            }
            Incoming::Answer { id, answer } => {
                let Some(waiting) = lock(&self.waiting).answers.remove(&id) else { return };
                waiting.send(answer).ok();
            }
            Incoming::Other => {}
        }
    }
}
