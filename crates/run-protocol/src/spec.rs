//! The spec of a run, `spec.json`: everything that admission decides before any process exists.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    BytesPath, Lineage, McpChoice, NetworkMode, QueueTerms, ResourceLimits, RunId, RunLimits,
    Widening, WorkspaceSaving, WorktreeOrigin,
};

/// The spec of a run. Holds no secret: the shim gets keys through its environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The run.
    pub run: RunId,
    /// When it was accepted, in milliseconds since the epoch.
    pub created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Cursor's session.
    pub session: Uuid,
    pub session_start: SessionStart,
    /// The workspace's physical path. Always UTF-8, because node cannot work in other directories.
    pub workspace: String,
    /// The repository that the workspace is a worktree of, if Caretaker made the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeOrigin>,
    /// The shell command that prepares a new worktree, in the sandbox, before the agent. `None`: the worktree is not new, or
    /// needs no preparation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// How the shim saves the workspace before the run. `None`: it does not.
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
    pub tool_approval: ToolApproval,
    /// True if the agent prints its answer as it writes it.
    #[serde(default)]
    pub partial_output: bool,
    /// The user's own flags for the agent, after admission's check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_flags: Vec<String>,
    /// The name of the sandbox profile.
    pub profile: String,
    /// The profile's full text when admission accepted the run.
    pub profile_text: String,
    /// More host paths to show inside the sandbox, read-only, from the configuration and `--expose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose: Vec<BytesPath>,
    /// True if the run begins with empty dependency caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh_cache: bool,
    /// The network mode, if it differs from the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Hosts that the run may reach in addition to the profile's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// The registries that the run may reach too, from `--registries`. If there are any, tools can fetch dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<String>,
    /// The user's registries that the run may not reach. When the shim refuses one, it suggests `--registries`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_registries: Vec<String>,
    /// The path of the bubblewrap program.
    pub bwrap: BytesPath,
    /// The user's home directory on the host.
    pub home: BytesPath,
    /// The host directory in which the user's own agent keeps its chats and configuration.
    pub host_config_root: BytesPath,
    /// The user's login file. The run gets a private copy. `None`: the run logs in with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_file: Option<BytesPath>,
    /// The user's own rules for the agent. `None`: the run has no sandbox, so the agent reads the user's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<AgentPolicy>,
    /// The files that define the user's own MCP servers, if the agent gets those servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_mcp: Option<UserMcpFiles>,
    /// Servers from the repository's own file that the user allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repository_mcp: Vec<RepositoryServer>,
    /// The user's changes to the MCP servers of the session that this session is a copy of or replaces. They apply
    /// until this session has its own record.
    #[serde(default, skip_serializing_if = "McpChoice::is_empty")]
    pub mcp_choice: McpChoice,
    /// The user's variables for the agent; no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The host's files with the user's own certificate authorities, by the variable that names each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub certificates: BTreeMap<String, BytesPath>,
    /// The user's settings for tools such as git, as files in the private home: path in the home, text. No secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub home_files: BTreeMap<String, String>,
    /// The names of further secrets that the agent gets as variables. Their values are never in a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Time limits.
    pub limits: RunLimits,
    /// Limits on the use of the machine.
    #[serde(default)]
    pub resources: ResourceLimits,
    /// True if the shim waits for a session or workspace that another run holds, instead of failing.
    #[serde(default)]
    pub wait_for_locks: bool,
    /// The failed run that this run repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// The run that this run continues. The shim refuses if a later run has taken the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// True if a daemon or command that finds the run interrupted may continue it without asking.
    #[serde(default)]
    pub restart: bool,
    /// The group of runs that this run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The conditions for leaving the queue. `None`: the run started immediately, without the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueTerms>,
    /// The parent, if another run asked for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The ids of the inbox messages that form the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivers: Vec<String>,
    /// The bounds that the user widened, compared to the run that this run continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widened: Vec<Widening>,
    /// The directory of the run's sockets.
    pub socket_dir: BytesPath,
}

impl RunSpec {
    /// The hosts that the run may reach in addition to the profile's, registries included.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.allow_hosts.iter().chain(&self.registries).map(String::as_str)
    }
}

/// The files that define the user's own MCP servers. The files hold secrets, so the spec only has their paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserMcpFiles {
    /// `~/.cursor/mcp.json`.
    pub servers: BytesPath,
    /// Every `mcp-disabled.json` that may apply to this workspace; the files need not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<BytesPath>,
    /// The servers that the user named. `None`: all servers that are switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
}

/// What a sandboxed agent gets from the user's own `cli-config.json`, and what it does not get.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPolicy {
    /// The permissions that the user or the project denies, such as `Shell(git push)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The permissions that the user allows. They count only if the run asks for [`ToolApproval::AllowList`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// The keys that select the user's default model, as they are in the user's file. Empty if the run names a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model: BTreeMap<String, Value>,
    /// True if the agent must use HTTP/1.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http1: bool,
    /// The user's `authInfo`, if it names the team. All of it, because the agent may reject a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Value>,
    /// The programs that the enterprise hooks in `/etc/cursor` start. The sandbox shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hook_programs: Vec<BytesPath>,
    /// The user's files and settings that do not apply in the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl AgentPolicy {
    /// The name of the user's default model.
    pub fn model_name(&self) -> Option<&str> {
        let model = self.model.get("model")?;
        ["displayName", "modelId"].iter().find_map(|key| model.get(key)?.as_str())
    }

    /// The team that the agent works for: a number, or text.
    pub fn team(&self) -> Option<&Value> {
        self.account.as_ref()?.get("activeTeamId")
    }
}

/// A server from the repository's `.cursor/mcp.json` that the user allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositoryServer {
    pub name: String,
    /// The SHA-256 of its definition, in hex. The user allowed only this definition.
    pub sha256: String,
}

/// A new session, or an existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStart {
    /// Caretaker made the id.
    New,
    /// The session exists and the run continues it.
    Resume,
}

/// The agent's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentProgram {
    pub kind: AgentKind,
    /// The file to execute: a fixed path, never a link that an update may change.
    pub program: BytesPath,
    /// Arguments that come before the agent's own, for the simulated agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leading_arguments: Vec<String>,
    /// The paths that the program needs. The sandbox shows them read-only.
    pub expose: Vec<BytesPath>,
    /// Caretaker's own copy of the installed version. The sandbox shows it in place of the directory in `expose`, so
    /// that an update of the installed agent cannot take files away from the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<BytesPath>,
    /// The version that the program reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl AgentProgram {
    /// The directory of an installed agent. `None`: the agent is a single file.
    pub fn installed_directory(&self) -> Option<&Path> {
        let shown = self.expose.first()?;
        (self.kind == AgentKind::Cursor && *shown != self.program).then_some(&*shown.0)
    }
}

/// Cursor's agent, or the simulated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Cursor,
    Simulated,
}

/// A mode in which the agent only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    Plan,
    Ask,
}

/// How the agent's tool calls are approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolApproval {
    /// `--force`: all tools run without asking, because the sandbox protects the host.
    Force,
    /// Only tools that the agent's own permissions allow.
    AllowList,
}
