//! The parts of a sandbox: bubblewrap, a profile, MCP servers, a workspace.

pub mod bubblewrap;
pub mod profiles;
pub mod user_mcp;
pub mod workspace;
