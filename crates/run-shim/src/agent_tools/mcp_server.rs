//! The shim's MCP server, on the run's own socket. Only the run's sandbox can reach it.
//!
//! ```text
//!   agent ── stdio ──► caretaker mcp ── inside/mcp.sock ──► SocketTransport ──► RunTools ──► RunEvents
//!                      (relay)          at most eight       bounded, paced,     │ tools      for the journal
//!                                       connections         one call at a time  └─► AgentDesk, for calls beyond the run
//! ```
//!
//! **Invariant:** the socket identifies the caller. The server ignores ids in a request.
//!
//! **Invariant:** no client can fail the run, block it, or make it use unbounded memory.

mod pace;
mod run_tools;
mod socket_transport;

pub(crate) use run_tools::POLLING;

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use run_protocol::{Lineage, McpRefusal, RunEvent, RunId};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use uuid::Uuid;

use crate::agent_tools::agent_desk::AgentDesk;
use pace::Pace;
use run_tools::RunTools;
use socket_transport::{SocketTransport, error_line};

/// An agent needs one connection. Some keep an old one open while they reconnect.
const MOST_CONNECTIONS: usize = 8;
/// After a burst, the server accepts connections only at this interval. It then accepts all waiting connections, up to
/// the maximum.
const BETWEEN_ARRIVALS: Duration = Duration::from_millis(50);
const ARRIVAL_BURST: u32 = 32;
const MOST_ARRIVALS: usize = 256;

/// The number of tools.
pub(crate) fn n_tools() -> usize {
    run_tools::n_tools()
}

/// The facts about the run that the agent may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WhoAmI {
    pub(crate) run: RunId,
    /// Cursor's session.
    pub(crate) session: Uuid,
    pub(crate) name: Option<String>,
    /// The workspace's physical path.
    pub(crate) workspace: String,
    /// The model that the user asked for.
    pub(crate) model: Option<String>,
    /// The run's deadline, in milliseconds since the epoch.
    pub(crate) deadline_ms: Option<u64>,
    /// The tool-call limit.
    pub(crate) max_tool_calls: Option<u64>,
    /// The token limit.
    pub(crate) max_tokens: Option<u64>,
    /// The run's parent.
    pub(crate) lineage: Option<Lineage>,
}

/// How long the server waits for a client.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until its first valid request.
    for_handshake: Duration,
    /// Until it makes room for an answer.
    for_reader: Duration,
}

/// An agent on a busy machine may connect long before its first request.
const PATIENCE: Patience =
    Patience { for_handshake: Duration::from_secs(60), for_reader: Duration::from_secs(30) };

/// Serves the tools until dropped. Then every connection closes.
///
/// Each tool call becomes one or two events, which the server puts into `events` together. While the channel is full,
/// it answers calls with an error and records no event; it never waits. The runtime needs its I/O and time drivers, and
/// only one thread.
pub(crate) async fn serve(
    listener: UnixListener,
    facts: WhoAmI,
    events: mpsc::Sender<RunEvent>,
    desk: Arc<AgentDesk>,
) -> Infallible {
    accept_connections(listener, RunTools::new(facts, events, desk), PATIENCE).await
}

async fn accept_connections(
    listener: UnixListener,
    tools: RunTools,
    patience: Patience,
) -> Infallible {
    let mut connections = Connections { tasks: JoinSet::new(), held: Vec::new(), tools, patience };
    let mut pace = Pace::new(BETWEEN_ARRIVALS, ARRIVAL_BURST);
    loop {
        let first = tokio::select! {
            // This comes first, so that a closed connection makes room for a waiting one.
            biased;
            Some(_) = connections.tasks.join_next() => continue,
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
        };
        let rest = std::iter::from_fn(|| waiting(&listener)).take(MOST_ARRIVALS);
        // Accept all waiting connections at once, so that later ones wait less.
        for accepted in std::iter::once(first).chain(rest) {
            match accepted {
                Ok(stream) => connections.take(stream),
                // The process is probably out of descriptors. The pace keeps this from becoming a busy loop.
                Err(err) => {
                    tracing::debug!(%err, "cannot accept a connection from the agent");
                    break;
                }
            }
        }
        pace.charge(Instant::now(), 1);
        pace.wait().await;
    }
}

/// Accepts a waiting connection, if there is one.
fn waiting(listener: &UnixListener) -> Option<io::Result<UnixStream>> {
    match listener.poll_accept(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(accepted) => Some(accepted.map(|(stream, _)| stream)),
        Poll::Pending => None,
    }
}

/// A run's connections, eight at most.
struct Connections {
    tasks: JoinSet<()>,
    /// The open connections, oldest first.
    held: Vec<Held>,
    tools: RunTools,
    patience: Patience,
}

struct Held {
    task: AbortHandle,
    /// True once the client has sent a valid request.
    has_spoken: Arc<AtomicBool>,
}

impl Connections {
    /// Serves a new client. If there is no room, the new client replaces the oldest one that has not sent anything yet.
    fn take(&mut self, stream: UnixStream) {
        self.held.retain(|held| !held.task.is_finished());
        if self.held.len() >= MOST_CONNECTIONS {
            self.tools.note_refused(McpRefusal::TooManyConnections, Instant::now());
            let is_silent = |held: &Held| !held.has_spoken.load(Ordering::Relaxed);
            match self.held.iter().position(is_silent) {
                Some(silent) => self.held.remove(silent).task.abort(),
                None => return refuse(stream),
            }
        }
        let has_spoken = Arc::new(AtomicBool::new(false));
        let (tools, spoken) = (self.tools.clone(), Arc::clone(&has_spoken));
        let task = self.tasks.spawn(serve_connection(stream, tools, self.patience, spoken));
        self.held.push(Held { task, has_spoken });
    }
}

async fn serve_connection(
    stream: UnixStream,
    tools: RunTools,
    patience: Patience,
    has_spoken: Arc<AtomicBool>,
) {
    let transport = SocketTransport::new(stream, patience.for_reader, tools.clone());
    match tokio::time::timeout(patience.for_handshake, tools.serve(transport)).await {
        Ok(Ok(service)) => {
            has_spoken.store(true, Ordering::Relaxed);
            let ended = service.waiting().await;
            tracing::debug!(?ended, "a connection from the agent ended");
        }
        Ok(Err(_)) => tracing::debug!("a connection from the agent ended before its first request"),
        Err(_) => tracing::debug!("one of the agent's clients sent no valid request"),
    }
}

/// Sends the reason and closes the connection, so that the client fails immediately instead of waiting for an answer.
fn refuse(stream: UnixStream) {
    // The socket is non-blocking and its buffer is empty, so this neither waits nor fails for lack of room.
    if let Ok(mut stream) = stream.into_std() {
        let line = error_line(-32000, "caretaker serves no more than eight connections at once");
        stream.write_all(&line).ok();
    }
}

#[cfg(test)]
#[path = "mcp_server_tests.rs"]
mod tests;
