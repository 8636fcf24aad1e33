//! Commands about this machine: its sandbox, logins, MCP servers and configuration.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod login;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod sandbox;
