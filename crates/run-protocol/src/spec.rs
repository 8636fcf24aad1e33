//! Everything that is decided about a run before any process exists: `spec.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    BytesPath, Lineage, McpChoice, NetworkMode, QueueTerms, ResourceLimits, RunId, RunLimits,
    Widening, WorkspaceSaving, WorktreeOrigin,
};

/// The spec of a run. Holds no secret: keys reach the shim by its environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// When it was accepted, in milliseconds since the epoch.
    pub created_ms: u64,
    /// A name to call it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user's own marks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Cursor's session.
    pub session: Uuid,
    /// Whether the session is expected to exist.
    pub session_start: SessionStart,
    /// The workspace's physical path; always UTF-8, because node cannot work elsewhere.
    pub workspace: String,
    /// The repository that the workspace is a worktree of, if we made it for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeOrigin>,
    /// How the workspace is saved before the run. `None`: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saving: Option<WorkspaceSaving>,
    /// The agent to run.
    pub agent: AgentProgram,
    /// `--model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `--mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// Whether tools run without being asked about.
    pub tool_approval: ToolApproval,
    /// Whether the answer is printed as it is typed.
    #[serde(default)]
    pub partial_output: bool,
    /// The user's own flags for the agent, checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_flags: Vec<String>,
    /// The name of the sandbox profile.
    pub profile: String,
    /// The profile's whole text, as it was when the run was accepted.
    pub profile_text: String,
    /// More of the host to show inside, read-only: what the user's configuration and `--expose` name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose: Vec<BytesPath>,
    /// What of the network is inside, in place of what the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Hosts that may be reached beside those of the profile, checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// The bubblewrap to use, checked.
    pub bwrap: BytesPath,
    /// The user's home directory on the host.
    pub home: BytesPath,
    /// Where the user's own agent keeps its chats and configuration on the host.
    pub host_config_root: BytesPath,
    /// The user's login file, of which the run gets a private copy. `None`: it logs in with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_file: Option<BytesPath>,
    /// Where the user's own MCP servers are defined, if the agent is to have them too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_mcp: Option<UserMcpFiles>,
    /// Servers of the repository's own file that the user allowed by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repository_mcp: Vec<RepositoryServer>,
    /// What the user changed about the servers of the session that this one is a copy of, or begins in the place of. It
    /// counts until the session has a record of its own.
    #[serde(default, skip_serializing_if = "McpChoice::is_empty")]
    pub mcp_choice: McpChoice,
    /// Variables for the agent, beside those we set; no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The names of further secrets that the agent has as variables. Their values are written down nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Time limits.
    pub limits: RunLimits,
    /// What it may take of the machine.
    #[serde(default)]
    pub resources: ResourceLimits,
    /// Whether to wait for a session or workspace that is held, instead of failing.
    #[serde(default)]
    pub wait_for_locks: bool,
    /// The run that failed and is tried again with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The run that it continues. The shim refuses if a later run has taken the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// Whether whoever finds it interrupted may continue it without being asked.
    #[serde(default)]
    pub restart: bool,
    /// The runs that it is counted and shown with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How it waits for its turn. `None`: it was started at once, past the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueTerms>,
    /// Whose child it is, where another run asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The messages of its session's inbox that are its prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivers: Vec<String>,
    /// In what it may do more than the run that it continues, because the user said so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widened: Vec<Widening>,
    /// Where sockets are.
    pub socket_dir: BytesPath,
}

/// The files that define the user's own MCP servers. They hold secrets, so the spec only names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserMcpFiles {
    /// `~/.cursor/mcp.json`.
    pub servers: BytesPath,
    /// Every `mcp-disabled.json` that may be about this workspace; they need not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<BytesPath>,
    /// The servers that the user named. `None`: all that are switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
}

/// A server of the repository's `.cursor/mcp.json` that the user allowed, as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositoryServer {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its definition, in hex. The user allowed this definition and no other.
    pub sha256: String,
}

/// Whether a session is expected to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStart {
    /// A new id that we made.
    New,
    /// One to continue.
    Resume,
}

/// The agent's program, found and checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentProgram {
    /// The real one, or ours.
    pub kind: AgentKind,
    /// What is executed: a pinned path, never a link that an update may turn.
    pub program: BytesPath,
    /// Words before the agent's own arguments; used when the program is ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leading_arguments: Vec<String>,
    /// What must be visible inside for it to run, read-only.
    pub expose: Vec<BytesPath>,
    /// What it says its version is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Whose agent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// Cursor's.
    Cursor,
    /// Our stand-in.
    Simulated,
}

/// The agent's read-only modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    /// Makes a plan.
    Plan,
    /// Answers questions.
    Ask,
}

/// Whether the agent's tools run without being asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolApproval {
    /// `--force`: the sandbox is the guard.
    Force,
    /// The agent's own allow-list.
    AllowList,
}
