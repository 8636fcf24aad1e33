//! One connection of an agent: lines in, lines out, and no more of either than we are ready for.
//!
//! The service loop of the MCP library takes requests as fast as they come and holds every answer that nobody reads. Here
//! the next line is read only when the last answer was written, so that a client that does not read is not read either.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use run_protocol::McpRefusal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Semaphore};

use super::pace::Pace;
use super::run_tools::RunTools;

/// A hundred times what the largest report of use needs.
pub(super) const MOST_LINE_BYTES: usize = 256 * 1024;
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// A client that talks without end is read at two hundred kilobytes or lines a second, whichever is less.
const BETWEEN_UNITS: Duration = Duration::from_millis(5);
const UNIT_BURST: u32 = 1024;
const UNIT_BYTES: usize = 1024;

pub(super) struct SocketTransport {
    reader: BufReader<OwnedReadHalf>,
    /// What was read of the line under way; kept here because reading may be interrupted at any point.
    line: Vec<u8>,
    pace: Pace,
    writer: AnswerWriter,
    /// Where it is written down what was turned away.
    tools: RunTools,
}

/// Writes answers, each as a whole, and says when there is room for the next request.
#[derive(Clone)]
struct AnswerWriter {
    socket: Arc<Mutex<OwnedWriteHalf>>,
    /// One permit: the right to read a request. Spent by a request, given back by its answer. Closed for ever when an
    /// answer could not be written.
    turn: Arc<Semaphore>,
    patience: Duration,
}

impl SocketTransport {
    pub(super) fn new(stream: UnixStream, patience: Duration, tools: RunTools) -> Self {
        let (reader, socket) = stream.into_split();
        Self {
            reader: BufReader::with_capacity(READ_BUFFER_BYTES, reader),
            line: Vec::new(),
            pace: Pace::new(BETWEEN_UNITS, UNIT_BURST),
            writer: AnswerWriter {
                socket: Arc::new(Mutex::new(socket)),
                turn: Arc::new(Semaphore::new(1)),
                patience,
            },
            tools,
        }
    }

    /// Reads up to the end of a line. Cancel safe: what was read is kept for the next call.
    async fn read_line(&mut self) -> Result<(), EndOfLines> {
        loop {
            let chunk = self.reader.fill_buf().await.map_err(|_| EndOfLines::Closed)?;
            if chunk.is_empty() {
                return Err(EndOfLines::Closed);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let n_bytes = end.map_or(chunk.len(), |end| end + 1);
            if self.line.len() + n_bytes > MOST_LINE_BYTES {
                return Err(EndOfLines::TooLong);
            }
            self.line.extend_from_slice(&chunk[..n_bytes]);
            self.reader.consume(n_bytes);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// Takes the line that was read, and pays for it.
    fn take_message(&mut self) -> Option<Result<ClientJsonRpcMessage, serde_json::Error>> {
        let n_units = u32::try_from(1 + self.line.len() / UNIT_BYTES).unwrap_or(u32::MAX);
        self.pace.charge(Instant::now(), n_units);
        let line = self.line.trim_ascii();
        let message = (!line.is_empty()).then(|| serde_json::from_slice(line));
        // A long line is rare; what it took is given back.
        self.line = Vec::new();
        message
    }
}

/// Why there are no more lines.
enum EndOfLines {
    Closed,
    TooLong,
}

impl Transport<RoleServer> for SocketTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let writer = self.writer.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            match message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => writer.answer(line).await,
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {
                    writer.write(&line).await
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let turn = Arc::clone(&self.writer.turn);
        loop {
            let permit = turn.acquire().await.ok()?;
            self.pace.wait().await;
            match self.read_line().await {
                Ok(()) => {}
                Err(EndOfLines::Closed) => return None,
                Err(EndOfLines::TooLong) => {
                    permit.forget();
                    self.tools.note_refused(McpRefusal::Oversized, Instant::now());
                    let reason = format!("a line may have {MOST_LINE_BYTES} bytes and no more");
                    self.writer.answer_soon(error_line(-32600, &reason));
                    return None;
                }
            }
            match self.take_message() {
                Some(Ok(message @ JsonRpcMessage::Request(_))) => {
                    permit.forget();
                    return Some(message);
                }
                // Every call is answered at once, so there is nothing to cancel, and a cancelled one would never be
                // answered.
                Some(Ok(JsonRpcMessage::Notification(notification)))
                    if matches!(
                        notification.notification,
                        ClientNotification::CancelledNotification(_)
                    ) => {}
                Some(Ok(message)) => return Some(message),
                // Somebody may be waiting for an answer to what we cannot read. Who talks something other than JSON is not.
                Some(Err(err)) if err.is_data() => {
                    permit.forget();
                    self.tools.note_refused(McpRefusal::Malformed, Instant::now());
                    let line = error_line(-32600, "this is not a request of the protocol");
                    self.writer.answer_soon(line);
                }
                Some(Err(_)) => self.tools.note_refused(McpRefusal::Malformed, Instant::now()),
                None => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Both halves are closed when they are dropped, which is what follows.
        Ok(())
    }
}

impl AnswerWriter {
    /// Writes an answer and lets the next request be read.
    async fn answer(&self, line: Vec<u8>) -> std::io::Result<()> {
        let written = self.write(&line).await;
        match written {
            Ok(()) => self.turn.add_permits(1),
            Err(_) => self.turn.close(),
        }
        written
    }

    /// Answers in a task of its own: reading may be interrupted at any point, an answer must not.
    fn answer_soon(&self, line: Vec<u8>) {
        let writer = self.clone();
        tokio::spawn(async move { writer.answer(line).await.ok() });
    }

    async fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let mut socket = self.socket.lock().await;
        match tokio::time::timeout(self.patience, socket.write_all(line)).await {
            Ok(written) => written,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

/// An answer to somebody whose request has no id that we know.
pub(super) fn error_line(code: i32, message: &str) -> Vec<u8> {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    format!("{error}\n").into_bytes()
}
