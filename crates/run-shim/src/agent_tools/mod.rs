//! The agent's MCP servers: the shim's own server, which answers the agent's calls, and the servers that the user
//! chose.

pub(crate) mod agent_desk;
pub(crate) mod agent_servers;
pub(crate) mod live_servers;
pub mod mcp_relay;
pub(crate) mod mcp_server;
