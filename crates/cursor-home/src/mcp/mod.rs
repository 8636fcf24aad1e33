//! MCP servers: our definitions, the user's files, approvals and secrets.

pub(crate) mod approvals;
pub(crate) mod secrets;
pub(crate) mod server;
pub(crate) mod server_list;
pub(crate) mod tool_budget;
pub(crate) mod user_files;
