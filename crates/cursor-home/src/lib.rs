//! Everything that cursor-agent expects on disk and on its command line.
//!
//! Everything here is pure: paths and bytes in, paths and bytes out. The caller reads and writes the files, resolves
//! the symlinks and starts the program.
//!
//! ```text
//!  environment ──► CursorRoots ─┐
//!                               ├──► SessionDir, ProjectDir        where its files are
//!  workspace ──► WorkspacePath ─┘
//!  McpServers ──► mcp.json, mcp-approvals.json ─┐
//!  user's rules ─► CliConfig, trust, RulesFile  ├──► bytes          the files that we write for it
//!  AgentCommand, ExtraFlags, AgentEnvironment ──┴──► argv, env      how we start it
//! ```
//!
//! **Invariant:** no file system, no environment, no clock: the same input gives the same bytes.
//!
//! **Invariant:** a prompt never enters the argument vector, and no flag from the user can change the files that
//! Caretaker reads back.
//!
//! **Invariant:** Caretaker keeps, refuses with a reason, or reports everything in the user's own MCP files. It drops
//! nothing silently.

mod cli_config;
mod json_file;
mod login;
mod mcp;
mod roots;
mod rules;
mod start;
mod trust;
mod user_rules;
mod workspace;

pub use cli_config::{CliConfig, agent_cli_state_json, every_tool_of};
pub use login::{LOGIN_TOKENS, LONGEST_TOKEN, Login, LoginError};
pub use mcp::approvals::{approval_id, approvals_json};
pub use mcp::server::{McpServer, McpServerError, Transport};
pub use mcp::server_list::{McpServers, Merged, NameClash, NameTaken};
pub use mcp::tool_budget::{TOOL_LIMIT, ToolBudget};
pub use mcp::user_files::{DisabledServers, McpFile, McpFileError, UserServers};
pub use roots::{CursorRoots, HostEnvironment, RootsError, without_dots};
pub use rules::{RulesFile, RulesNameError};
pub use start::agent_binary::{
    AgentCheck, AgentSearch, AgentVersion, BESIDE_THE_LAUNCHER, Beside, Candidate, Exposure,
    FoundBy, NotAProgramPath, PinnedAgent, SIMULATED_VERSION, candidates, parse_version,
    says_it_is_cursor,
};
pub use start::command_line::{
    AgentCommand, ModelSlug, ModelSlugError, PartialOutput, ServerApproval,
};
pub use start::environment::{AgentEnvironment, is_stripped};
pub use start::extra_flags::{ExtraFlagError, ExtraFlags};
pub use trust::trust_marker_json;
pub use user_rules::{RulesError, has_hooks, hook_programs, project_deny_rules, user_policy};
pub use workspace::{BucketHash, ProjectDir, SessionDir, WorkspacePath, WorkspacePathError};
