//! The tools that an agent gets: MCP servers, other agents, and messages.

mod family;
mod inbox;
pub(crate) mod mcp;
