//! The MCP servers of a run: those that `mcp.json` names, their approvals, and the connections to approved ones.
//!
//! ```text
//!                    ┌─ program    a server with a `command`: stdin and stdout
//!   protocol ────────┤
//!   greet, request   └─ remote     a server with a `url`: streamable HTTP ─► curl, event_stream
//! ```
//!
//! `envFile` and `auth` are accepted and have no effect.

mod curl;
mod event_stream;
mod program;
mod protocol;
mod remote;

pub use protocol::RequestError;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cursor_home::{
    CursorRoots, DisabledServers, McpServer, ProjectDir, Transport, WorkspacePath, approval_id,
};
use serde_json::{Map, Value, json};

use crate::process::groups::ProcessGroups;
use crate::tools::read_json;
use curl::Curl;
use program::Program;
use protocol::Connection;
use remote::Remote;

/// The agent's variables that a server inherits; all others must be in `mcp.json`.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "TERM", "SHELL", "USER"];

/// Everything that decides about the servers of a run.
#[derive(Debug, Clone, Copy)]
pub struct McpSetup<'a> {
    pub roots: &'a CursorRoots,
    /// The top of the git tree, else the workspace: part of every approval.
    pub project_root: &'a WorkspacePath,
    pub workspace: &'a WorkspacePath,
    pub project_directory: &'a ProjectDir,
    pub approval: ServerApproval,
    /// The agent's whole environment; the servers inherit little of it.
    pub env: &'a [(OsString, OsString)],
    pub time_limits: TimeLimits,
}

/// Which servers may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerApproval {
    /// Those in `mcp-approvals.json`.
    Recorded,
    /// All of them: `--approve-mcps` or `--force`.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the start of a server to the list of its tools.
    pub connect: Duration,
    pub call: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), call: Duration::from_secs(60) }
    }
}

/// A server and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: String,
    pub state: ServerState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    Ready {
        n_tools: usize,
    },
    /// The agent acts as if this server did not exist, and prints nothing about it.
    NeedsApproval,
    /// Switched off in `mcp-disabled.json`.
    Disabled,
    /// A server with a `url` that wants a login.
    NeedsLogin(String),
    Failed(String),
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    pub name: String,
    pub description: String,
    pub input_schema: Value,
}

/// The reason why a tool gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpCallError {
    #[error("MCP server does not exist: {server}. Available servers: {available}")]
    NoSuchServer { server: String, available: String },
    #[error("MCP server {server} has no tool {tool}")]
    NoSuchTool { server: String, tool: String },
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// The servers of a run. Dropping it stops them.
#[derive(Debug, Default)]
pub struct McpClients {
    servers: Vec<Server>,
    call_limit: Duration,
}

#[derive(Debug)]
struct Server {
    name: String,
    link: Link,
}

#[derive(Debug)]
enum Link {
    Up { connection: Box<dyn Connection>, tools: Vec<McpTool> },
    Down(ServerState),
}

impl McpClients {
    /// Starts all allowed servers at once and asks for their tools. A server that fails stays in the list.
    pub fn connect(setup: &McpSetup<'_>, processes: &ProcessGroups) -> Self {
        let approvals = approvals(setup.project_directory);
        let disabled = disabled(setup.project_directory);
        let servers = thread::scope(|scope| {
            let started = definitions(setup).into_iter().map(|(name, definition)| {
                let server = startable(&name, definition, setup, &approvals, &disabled);
                let link = scope.spawn(move || match server {
                    Ok(server) => link(&server, setup, processes),
                    Err(why_not) => Link::Down(why_not),
                });
                (name, link)
            });
            // All servers start before the first `join`.
            let started: Vec<_> = started.collect();
            let failed = || Link::Down(ServerState::Failed("connecting failed".to_owned()));
            let servers = started.into_iter().map(|(name, link)| Server {
                name,
                link: link.join().unwrap_or_else(|_| failed()),
            });
            servers.collect()
        });
        Self { servers, call_limit: setup.time_limits.call }
    }

    pub fn list(&self) -> Vec<ServerStatus> {
        let status = |server: &Server| {
            let state = match &server.link {
                Link::Up { tools, .. } => ServerState::Ready { n_tools: tools.len() },
                Link::Down(state) => state.clone(),
            };
            ServerStatus { name: server.name.clone(), state }
        };
        self.servers.iter().map(status).collect()
    }

    /// All servers: the tools of those that answered, and the state of the others.
    pub fn as_json(&self) -> Value {
        let server = |server: &Server| match &server.link {
            Link::Up { tools, .. } => {
                let tools: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                json!({"name": server.name, "state": "ready", "tools": tools})
            }
            Link::Down(ServerState::Failed(why)) => {
                json!({"name": server.name, "state": "failed", "why": why})
            }
            Link::Down(ServerState::NeedsLogin(why)) => {
                json!({"name": server.name, "state": "needs_login", "why": why})
            }
            Link::Down(ServerState::Disabled) => json!({"name": server.name, "state": "disabled"}),
            Link::Down(ServerState::NeedsApproval | ServerState::Ready { .. }) => {
                json!({"name": server.name, "state": "needs_approval"})
            }
        };
        self.servers.iter().map(server).collect()
    }

    pub fn list_tools(&self, server: &str) -> Result<&[McpTool], McpCallError> {
        self.link(server).map(|(_, tools)| tools)
    }

    /// Calls a tool and returns the result object of the protocol.
    pub fn call(
        &self,
        server: &str,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<Value, McpCallError> {
        let (connection, tools) = self.link(server)?;
        if !tools.iter().any(|known| known.name == tool) {
            return Err(McpCallError::NoSuchTool {
                server: server.to_owned(),
                tool: tool.to_owned(),
            });
        }
        let params = json!({"name": tool, "arguments": args});
        Ok(connection.request("tools/call", params, self.call_limit)?)
    }

    fn link(&self, name: &str) -> Result<(&dyn Connection, &[McpTool]), McpCallError> {
        let up = self.servers.iter().filter_map(|server| match &server.link {
            Link::Up { connection, tools } => {
                Some((server.name.as_str(), connection.as_ref(), tools.as_slice()))
            }
            Link::Down(_) => None,
        });
        up.clone()
            .find(|(held, ..)| *held == name)
            .map(|(_, connection, tools)| (connection, tools))
            .ok_or_else(|| {
                let names: Vec<&str> = up.map(|(held, ..)| held).collect();
                let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                McpCallError::NoSuchServer { server: name.to_owned(), available }
            })
    }
}

impl Drop for McpClients {
    fn drop(&mut self) {
        // Every server hears it before the agent waits for the first one.
        for server in &self.servers {
            if let Link::Up { connection, .. } = &server.link {
                connection.hang_up();
            }
        }
    }
}

/// Returns the server if the agent may start it, else its state.
fn startable(
    name: &str,
    definition: Value,
    setup: &McpSetup<'_>,
    approvals: &[String],
    disabled: &DisabledServers,
) -> Result<McpServer, ServerState> {
    if disabled.contains(name) {
        return Err(ServerState::Disabled);
    }
    let server =
        McpServer::from_json(definition).map_err(|err| ServerState::Failed(err.to_string()))?;
    let root = setup.project_root.as_path().to_string_lossy();
    let is_recorded = || approvals.contains(&approval_id(&root, name, &server));
    if setup.approval == ServerApproval::Recorded && !is_recorded() {
        return Err(ServerState::NeedsApproval);
    }
    Ok(server)
}

fn link(server: &McpServer, setup: &McpSetup<'_>, processes: &ProcessGroups) -> Link {
    let deadline = Instant::now() + setup.time_limits.connect;
    let connection: Result<Box<dyn Connection>, RequestError> = match server.transport() {
        Transport::Stdio => {
            started(server, setup, processes).map(|program| Box::new(program) as Box<_>)
        }
        Transport::Remote => {
            Ok(Box::new(Remote::new(server.definition(), Curl::new(setup.env, processes))))
        }
    };
    let greeted = connection.and_then(|connection| {
        let tools = protocol::greet(connection.as_ref(), deadline)?;
        Ok((connection, tools))
    });
    match greeted {
        Ok((connection, mut tools)) => {
            if server.definition().contains_key("enabledTools") {
                let enabled: Vec<&str> = texts(server, "enabledTools").collect();
                tools.retain(|tool| enabled.contains(&tool.name.as_str()));
            }
            Link::Up { connection, tools }
        }
        Err(err @ RequestError::NeedsLogin(_)) => {
            Link::Down(ServerState::NeedsLogin(err.to_string()))
        }
        Err(err) => Link::Down(ServerState::Failed(err.to_string())),
    }
}

fn started(
    server: &McpServer,
    setup: &McpSetup<'_>,
    processes: &ProcessGroups,
) -> Result<Program, RequestError> {
    let definition = server.definition();
    let text = |field: &str| definition.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut command = Command::new(text("command"));
    command
        .args(texts(server, "args"))
        .env_clear()
        .envs(environment(definition, setup.env))
        .current_dir(setup.workspace.as_path().join(text("cwd")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Program::start(&mut command, processes)
}

fn texts<'a>(server: &'a McpServer, field: &str) -> impl Iterator<Item = &'a str> {
    let list = server.definition().get(field).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// A few variables of the agent, and over them those of the definition.
fn environment(
    definition: &Map<String, Value>,
    inherited: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let own = definition.get("env").and_then(Value::as_object).into_iter().flatten();
    let own = own.filter_map(|(name, value)| Some((name.into(), value.as_str()?.into())));
    let is_inherited = |name: &OsStr| INHERITED.iter().any(|inherited| name == *inherited);
    // If a name comes twice, the later value counts.
    inherited.iter().filter(|(name, _)| is_inherited(name)).cloned().chain(own).collect()
}

/// The user's servers and then the project's. If both have the same name, the project's counts.
fn definitions(setup: &McpSetup<'_>) -> Map<String, Value> {
    let mut servers = servers_in(&setup.roots.user_mcp_json());
    servers.extend(servers_in(&setup.workspace.as_path().join(".cursor/mcp.json")));
    servers
}

fn servers_in(path: &Path) -> Map<String, Value> {
    match read_json(path).as_mut().and_then(|file| file.get_mut("mcpServers")).map(Value::take) {
        Some(Value::Object(servers)) => servers,
        _ => Map::new(),
    }
}

fn approvals(project_directory: &ProjectDir) -> Vec<String> {
    let ids = read_json(&project_directory.approvals())
        .and_then(|file| serde_json::from_value(file).ok());
    ids.unwrap_or_default()
}

fn disabled(project_directory: &ProjectDir) -> DisabledServers {
    let file = read_json(&project_directory.disabled_servers());
    file.and_then(|file| DisabledServers::parse(file.to_string().as_bytes()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "mcp_client_tests.rs"]
mod tests;
