//! The parts of a sandbox: bubblewrap, a profile, MCP servers, the user's rules, a workspace.

pub mod bubblewrap;
pub mod profiles;
pub mod user_mcp;
pub(crate) mod user_policy;
pub mod workspace;
