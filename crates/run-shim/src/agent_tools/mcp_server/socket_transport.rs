//! One connection from an agent: lines in and lines out, both bounded.
//!
//! The MCP library reads requests as fast as they come, and keeps every answer that the client does not read. So this
//! transport reads the next line only after it has written the last answer. A client that does not read cannot send
//! more.

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

/// The longest line, a hundred times longer than a useful report.
pub(super) const MOST_LINE_BYTES: usize = 256 * 1024;
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// The shim reads at most two hundred kilobytes and two hundred lines a second from a noisy client.
const BETWEEN_UNITS: Duration = Duration::from_millis(5);
const UNIT_BURST: u32 = 1024;
const UNIT_BYTES: usize = 1024;

pub(super) struct SocketTransport {
    reader: BufReader<OwnedReadHalf>,
    /// The part of the current line that has arrived. Reading may be interrupted at any point.
    line: Vec<u8>,
    pace: Pace,
    writer: AnswerWriter,
    /// Records refusals.
    tools: RunTools,
}

/// Writes whole answers, and allows the next request after each.
#[derive(Clone)]
struct AnswerWriter {
    socket: Arc<Mutex<OwnedWriteHalf>>,
    /// One permit: the right to read a request. A request takes it, and its answer returns it. The semaphore closes if
    /// writing an answer fails.
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

    /// Reads up to the next line feed. Cancel safe: the next call continues the line.
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

    /// Takes the line, and charges the pace for it.
    fn take_message(&mut self) -> Option<Result<ClientJsonRpcMessage, serde_json::Error>> {
        let n_units = u32::try_from(1 + self.line.len() / UNIT_BYTES).unwrap_or(u32::MAX);
        self.pace.charge(Instant::now(), n_units);
        let line = self.line.trim_ascii();
        let message = (!line.is_empty()).then(|| serde_json::from_slice(line));
        // Long lines are rare, so free their memory.
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
                    let reason = format!("a line may have at most {MOST_LINE_BYTES} bytes");
                    self.writer.answer_soon(error_line(-32600, &reason));
                    return None;
                }
            }
            match self.take_message() {
                Some(Ok(message @ JsonRpcMessage::Request(_))) => {
                    permit.forget();
                    return Some(message);
                }
                // The shim answers every call immediately, so there is nothing to cancel. The library would never
                // answer a cancelled call.
                Some(Ok(JsonRpcMessage::Notification(notification)))
                    if matches!(
                        notification.notification,
                        ClientNotification::CancelledNotification(_)
                    ) => {}
                Some(Ok(message)) => return Some(message),
                // A client may wait for an answer to JSON that is not a request, but not for an answer to other bytes.
                Some(Err(err)) if err.is_data() => {
                    permit.forget();
                    self.tools.note_refused(McpRefusal::Malformed, Instant::now());
                    let line = error_line(-32600, "this is not a valid MCP request");
                    self.writer.answer_soon(line);
                }
                Some(Err(_)) => self.tools.note_refused(McpRefusal::Malformed, Instant::now()),
                None => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Dropping the transport closes both halves.
        Ok(())
    }
}

impl AnswerWriter {
    /// Writes an answer, then allows the next request.
    async fn answer(&self, line: Vec<u8>) -> std::io::Result<()> {
        let written = self.write(&line).await;
        match written {
            Ok(()) => self.turn.add_permits(1),
            Err(_) => self.turn.close(),
        }
        written
    }

    /// Answers in its own task, because reading may be interrupted, but an answer must not be.
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

/// An answer to a request without a known id.
pub(super) fn error_line(code: i32, message: &str) -> Vec<u8> {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    format!("{error}\n").into_bytes()
}
