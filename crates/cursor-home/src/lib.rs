//! What cursor-agent expects on disk and on its command line: where its files live, what we write for it, how it is started.
//!
//! Everything here is pure: paths and bytes in, paths and bytes out. The caller reads and writes the files, resolves the
//! symlinks and starts the program.
//!
//! ```text
//!  environment ──► CursorRoots ─┐
//!                               ├──► SessionDir, ProjectDir        where things are
//!  workspace ──► WorkspacePath ─┘
//!  McpServers ──► mcp.json, mcp-approvals.json ─┐
//!  CliConfig, trust marker, RulesFile           ├──► bytes          what is written for the agent
//!  AgentCommand, ExtraFlags, AgentEnvironment ──┴──► argv, env      how it is started
//! ```
//!
//! **Invariant:** no file system, no environment, no clock: the same input gives the same bytes.
//!
//! **Invariant:** a prompt never enters the argument vector, and no flag of the user can change what we read back.
//!
//! **Invariant:** what the user's own MCP files say is kept, refused with a reason or reported; nothing is dropped in silence.

mod agent_binary;
mod agent_environment;
mod approvals;
mod cli_config;
mod command_line;
mod extra_flags;
mod json_file;
mod login;
mod mcp_server;
mod mcp_servers;
mod roots;
mod rules;
mod server_secrets;
mod tool_budget;
mod trust;
mod user_mcp;
mod workspace;

pub use agent_binary::{
    AgentCheck, AgentSearch, AgentVersion, Candidate, Exposure, FoundBy, NotAProgramPath,
    PinnedAgent, candidates, parse_version, says_it_is_cursor,
};
pub use agent_environment::{AgentEnvironment, is_stripped};
pub use approvals::{approval_id, approvals_json};
pub use cli_config::{AgentHttp, ApprovalMode, CliConfig, agent_cli_state_json, every_tool_of};
pub use command_line::{
    AgentCommand, AgentMode, ModelSlug, ModelSlugError, PartialOutput, ServerApproval, ToolApproval,
};
pub use extra_flags::{ExtraFlagError, ExtraFlags};
pub use login::{LOGIN_TOKENS, LONGEST_TOKEN, Login, LoginError};
pub use mcp_server::{McpServer, McpServerError, Transport};
pub use mcp_servers::{McpServers, Merged, NameClash, NameTaken};
pub use roots::{CursorRoots, HostEnvironment, RootsError, without_dots};
pub use rules::{RulesFile, RulesNameError};
pub use tool_budget::{TOOL_LIMIT, ToolBudget};
pub use trust::trust_marker_json;
pub use user_mcp::{DisabledServers, McpFile, McpFileError, UserServers};
pub use workspace::{ProjectDir, SessionDir, WorkspacePath, WorkspacePathError};
