//! Counts the tools of all MCP servers, because Cursor accepts only a few.

use std::collections::BTreeMap;

use crate::mcp::server_list::McpServers;

/// Cursor is said to ignore all tools beyond this number, across all servers.
// Only third-party documents say so: Cursor states no limit for the command line. So this is a warning, never a
// refusal.
pub const TOOL_LIMIT: usize = 40;

/// The tools counted so far, and the servers that could not be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBudget {
    pub used: usize,
    /// Servers whose number of tools is unknown.
    pub unknown: Vec<String>,
    pub limit: usize,
}

impl ToolBudget {
    /// Counts each server's `enabledTools` or its known tools. If both exist, the smaller number is used.
    pub fn of(servers: &McpServers, known: &BTreeMap<String, usize>) -> Self {
        let mut budget = Self { used: 0, unknown: Vec::new(), limit: TOOL_LIMIT };
        for (name, server) in servers.iter() {
            let numbers = server.n_enabled_tools().into_iter().chain(known.get(name).copied());
            match numbers.min() {
                Some(n_tools) => budget.used = budget.used.saturating_add(n_tools),
                None => budget.unknown.push(name.to_owned()),
            }
        }
        budget
    }

    /// Returns true if the counted tools alone are too many.
    pub fn is_over(&self) -> bool {
        self.used > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::server::McpServer;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn the_smaller_of_a_servers_own_list_and_its_known_tool_count_is_used() {
        let mut servers = McpServers::default();
        for (name, definition) in [
            ("listed", json!({"command": "a", "enabledTools": ["x", "y"]})),
            ("known", json!({"url": "https://b"})),
            ("small", json!({"command": "c", "enabledTools": ["x", "y", "z"]})),
            ("strange", json!({"command": "d"})),
        ] {
            servers.add(name, McpServer::from_json(definition).unwrap()).unwrap();
        }
        let known = BTreeMap::from([
            ("listed".to_owned(), 90),
            ("known".to_owned(), 37),
            ("small".to_owned(), 1),
        ]);
        let budget = ToolBudget::of(&servers, &known);
        assert_eq!(
            budget,
            ToolBudget { used: 40, unknown: vec!["strange".to_owned()], limit: TOOL_LIMIT }
        );
        assert!(!budget.is_over());
    }

    #[test]
    fn one_tool_more_than_the_limit_exceeds_the_budget() {
        let mut servers = McpServers::default();
        servers.add("big", McpServer::stdio("a", [], [])).unwrap();
        let known = BTreeMap::from([("big".to_owned(), TOOL_LIMIT + 1)]);
        assert!(ToolBudget::of(&servers, &known).is_over());
    }
}
