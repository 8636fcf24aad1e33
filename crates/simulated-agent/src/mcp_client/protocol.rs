//! The conversation with an MCP server over any transport: JSON-RPC, the handshake, the list of tools.

use std::fmt::Debug;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::McpTool;

/// The newest version that Cursor's client is known to speak.
const PROTOCOL_VERSION: &str = "2025-11-25";
/// The size limit for one message from a server.
pub(super) const MAX_MESSAGE_BYTES: u64 = 16 * 1024 * 1024;
const MAX_TOOL_PAGES: usize = 50;
/// The size limit for the tool list. No model could use more tools.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Why a request has no answer. The real agent uses the protocol's own SDK; texts with a code come from that SDK.
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
    #[error("the server lists more than {} MiB of tools", MAX_LIST_BYTES / 1024 / 1024)]
    TooManyTools,
    #[error("the server requires a login (HTTP {0})")]
    NeedsLogin(u16),
    #[error("the server answers with HTTP status {0}")]
    Status(u16),
    #[error("the server's answer is not MCP: {0}")]
    NotMcp(String),
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
}

pub(super) type Answer = Result<Value, RequestError>;

/// A connection to a server. Dropping it ends the connection.
pub(super) trait Connection: Debug + Send + Sync {
    /// Sends a request and waits for its answer. Safe to call from several threads at once.
    fn request(&self, method: &str, params: Value, limit: Duration) -> Answer;

    fn notify(&self, method: &str, params: Value, limit: Duration) -> Result<(), RequestError>;

    /// Tells the server that the conversation is over, without waiting for it.
    fn hang_up(&self);
}

/// Performs the handshake and asks for the server's tools, all before the deadline.
pub(super) fn greet(
    connection: &dyn Connection,
    deadline: Instant,
) -> Result<Vec<McpTool>, RequestError> {
    let left = || deadline.saturating_duration_since(Instant::now());
    let hello = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "simulated-agent", "version": env!("CARGO_PKG_VERSION")},
    });
    connection.request("initialize", hello, left())?;
    connection.notify("notifications/initialized", Value::Null, left())?;
    let (mut tools, mut n_bytes) = (Vec::new(), 0);
    let mut params = json!({});
    for _ in 0..MAX_TOOL_PAGES {
        let page = connection.request("tools/list", params, left())?;
        for listed in page["tools"].as_array().into_iter().flatten() {
            n_bytes += listed.to_string().len();
            if n_bytes > MAX_LIST_BYTES {
                return Err(RequestError::TooManyTools);
            }
            tools.extend(tool(listed));
        }
        match page.get("nextCursor") {
            Some(Value::String(cursor)) => params = json!({"cursor": cursor}),
            _ => break,
        }
    }
    Ok(tools)
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    match params {
        Value::Null => json!({"jsonrpc": "2.0", "method": method}),
        params => json!({"jsonrpc": "2.0", "method": method, "params": params}),
    }
}

/// Returns the parameters of the message that cancels a request.
pub(super) fn cancelled(id: u64) -> Value {
    json!({"requestId": id, "reason": "timed out"})
}

/// A message from the server.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A request from the server, with the reply. The agent answers `ping` and refuses every other request.
    Question {
        reply: Value,
    },
    Answer {
        id: u64,
        answer: Answer,
    },
    /// A message that no request is waiting for.
    Other,
}

impl Incoming {
    pub(super) fn of(message: &Value) -> Self {
        match (message["method"].as_str(), message.get("id")) {
            (Some("ping"), Some(id)) => {
                Self::Question { reply: json!({"jsonrpc": "2.0", "id": id, "result": {}}) }
            }
            (Some(_), Some(id)) => {
                let error = json!({"code": -32601, "message": "method not found"});
                Self::Question { reply: json!({"jsonrpc": "2.0", "id": id, "error": error}) }
            }
            (None, Some(id)) => {
                id.as_u64().map_or(Self::Other, |id| Self::Answer { id, answer: result(message) })
            }
            (_, None) => Self::Other,
        }
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
