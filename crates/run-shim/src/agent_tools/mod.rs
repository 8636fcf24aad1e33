//! The MCP servers that an agent has: the shim's own, which serves its calls, and those of the user.

pub(crate) mod agent_desk;
pub(crate) mod agent_servers;
pub(crate) mod live_servers;
pub mod mcp_relay;
pub(crate) mod mcp_server;
