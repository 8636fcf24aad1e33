//! The MCP servers of a run: those that `mcp.json` names, their approvals, and the connections to approved ones.
//!
//! ```text
//!                    ┌─ program    a server with a `command`: stdin and stdout
//!   protocol ────────┤
//!   greet, request   └─ remote     a server with a `url`: streamable HTTP ─► curl, event_stream
//! ```
//!
//! The agent accepts `envFile` and `auth`, but they have no effect.

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

/// The agent's variables that a server inherits. All others must be in `mcp.json`.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "TERM", "SHELL", "USER"];

/// Everything that determines the servers of a run.
#[derive(Debug, Clone, Copy)]
pub struct McpSetup<'a> {
    pub roots: &'a CursorRoots,
    /// The root of the git tree, or else the workspace. It is part of every approval.
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
    /// The time from the start of a server to the list of its tools.
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
    /// A server with a `url` that requires a login.
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

/// Why a tool gave no answer.
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
    state: ServerState,
    /// `None` unless the server is ready.
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    connection: Box<dyn Connection>,
    tools: Vec<McpTool>,
}

impl McpClients {
    /// Starts all allowed servers at once and asks for their tools. A server that fails stays in the list.
    pub fn connect(setup: &McpSetup<'_>, processes: &ProcessGroups) -> Self {
        let approvals = approvals(setup.project_directory);
        let disabled = disabled(setup.project_directory);
        let servers = thread::scope(|scope| {
            let started = definitions(setup).into_iter().map(|(name, definition)| {
                let server = startable(&name, definition, setup, &approvals, &disabled);
                (name, scope.spawn(move || link(&server?, setup, processes)))
            });
            // All servers start before the first `join`.
            let started: Vec<_> = started.collect();
            let failed = |_| Err(ServerState::Failed("connecting failed".to_owned()));
            let servers = started.into_iter().map(|(name, linking)| {
                match linking.join().unwrap_or_else(failed) {
                    Ok(link) => {
                        let state = ServerState::Ready { n_tools: link.tools.len() };
                        Server { name, state, link: Some(link) }
                    }
                    Err(state) => Server { name, state, link: None },
                }
            });
            servers.collect()
        });
        Self { servers, call_limit: setup.time_limits.call }
    }

    pub fn list(&self) -> Vec<ServerStatus> {
        let status = |server: &Server| ServerStatus {
            name: server.name.clone(),
            state: server.state.clone(),
        };
        self.servers.iter().map(status).collect()
    }

    /// All servers: the tools of those that answered, and the state of the others.
    pub fn as_json(&self) -> Value {
        let server = |Server { name, state, link }: &Server| {
            let tools = link.iter().flat_map(|link| &link.tools).map(|tool| tool.name.as_str());
            match state {
                ServerState::Ready { .. } => {
                    json!({"name": name, "state": "ready", "tools": tools.collect::<Vec<_>>()})
                }
                ServerState::Failed(why) => json!({"name": name, "state": "failed", "why": why}),
                ServerState::NeedsLogin(why) => {
                    json!({"name": name, "state": "needs_login", "why": why})
                }
                ServerState::Disabled => json!({"name": name, "state": "disabled"}),
                ServerState::NeedsApproval => json!({"name": name, "state": "needs_approval"}),
            }
        };
        self.servers.iter().map(server).collect()
    }

    pub fn list_tools(&self, server: &str) -> Result<&[McpTool], McpCallError> {
        self.link(server).map(|link| link.tools.as_slice())
    }

    /// Calls a tool and returns the result object of the protocol.
    pub fn call(
        &self,
        server: &str,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<Value, McpCallError> {
        let Link { connection, tools } = self.link(server)?;
        if !tools.iter().any(|known| known.name == tool) {
            let (server, tool) = (server.to_owned(), tool.to_owned());
            return Err(McpCallError::NoSuchTool { server, tool });
        }
        let params = json!({"name": tool, "arguments": args});
        Ok(connection.request("tools/call", params, self.call_limit)?)
    }

    fn link(&self, name: &str) -> Result<&Link, McpCallError> {
        let up =
            || self.servers.iter().filter_map(|server| Some((&server.name, server.link.as_ref()?)));
        up().find(|(held, _)| *held == name).map(|(_, link)| link).ok_or_else(|| {
            let names: Vec<&str> = up().map(|(held, _)| held.as_str()).collect();
            let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            McpCallError::NoSuchServer { server: name.to_owned(), available }
        })
    }
}

impl Drop for McpClients {
    fn drop(&mut self) {
        // Ask every server to end before waiting for the first one.
        self.servers
            .iter()
            .flat_map(|server| &server.link)
            .for_each(|link| link.connection.hang_up());
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

/// Connects to a server and asks for its tools.
fn link(
    server: &McpServer,
    setup: &McpSetup<'_>,
    processes: &ProcessGroups,
) -> Result<Link, ServerState> {
    let deadline = Instant::now() + setup.time_limits.connect;
    let greeted = || {
        let connection: Box<dyn Connection> = match server.transport() {
            Transport::Stdio => Box::new(started(server, setup, processes)?),
            Transport::Remote => {
                Box::new(Remote::new(server.definition(), Curl::new(setup.env, processes)))
            }
        };
        let mut tools = protocol::greet(connection.as_ref(), deadline)?;
        if server.definition().contains_key("enabledTools") {
            let enabled: Vec<&str> = texts(server, "enabledTools").collect();
            tools.retain(|tool| enabled.contains(&tool.name.as_str()));
        }
        Ok(Link { connection, tools })
    };
    greeted().map_err(|err| match err {
        RequestError::NeedsLogin(_) => ServerState::NeedsLogin(err.to_string()),
        err => ServerState::Failed(err.to_string()),
    })
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

/// A few of the agent's variables, overridden by those of the definition.
fn environment(
    definition: &Map<String, Value>,
    inherited: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let own = definition.get("env").and_then(Value::as_object).into_iter().flatten();
    let own = own.filter_map(|(name, value)| Some((name.into(), value.as_str()?.into())));
    let is_inherited = |name: &OsStr| INHERITED.iter().any(|inherited| name == *inherited);
    // If a name appears twice, the later value wins.
    inherited.iter().filter(|(name, _)| is_inherited(name)).cloned().chain(own).collect()
}

/// Returns the user's servers and then the project's. If both have the same name, the project's server wins.
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
