//! The agent's MCP servers: the shim's own, which serves the agent's calls, and those that the user chose.

pub(crate) mod agent_desk;
pub(crate) mod agent_servers;
pub(crate) mod live_servers;
pub mod mcp_relay;
pub(crate) mod mcp_server;
