//! The MCP servers that an agent gets, in order, and their `mcp.json`.

use serde_json::{Map, Value, json};

use crate::json_file;
use crate::mcp::server::McpServer;
use crate::mcp::user_files::{DisabledServers, McpFileError, SortedOut, UserServers};

/// Servers with different names, in insertion order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct McpServers(Vec<(String, McpServer)>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is already an MCP server called `{by}`")]
pub struct NameTaken {
    pub by: String,
}

/// Our servers and the user's, with those that were left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub servers: McpServers,
    pub clashes: Vec<NameClash>,
    /// Servers that the user switched off for the project.
    pub switched_off: Vec<String>,
}

/// A user's server that was left out because one of Caretaker's servers has the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameClash {
    pub ours: String,
    pub left_out: String,
}

impl McpServers {
    pub fn add(&mut self, name: &str, server: McpServer) -> Result<(), NameTaken> {
        match self.holder_of(name) {
            Some(by) => Err(NameTaken { by: by.to_owned() }),
            None => {
                self.0.push((name.to_owned(), server));
                Ok(())
            }
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.iter().map(|(name, _)| name.to_owned()).collect()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|(held, _)| held == name)
    }

    /// Returns all servers except these.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !names.contains(name)).cloned().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &McpServer)> {
        self.0.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Adds the user's own servers after ours. On a name clash ours win, and the result reports each clash.
    pub fn merge_user(
        self,
        user: UserServers,
        disabled: &DisabledServers,
    ) -> Result<Merged, McpFileError> {
        let (mut servers, mut clashes) = (self.clone(), Vec::new());
        let SortedOut { switched_on, switched_off } = user.sort_out(disabled)?;
        for (name, server) in switched_on {
            // Compares with our servers only: the names of the user's own servers differ in their bytes, and Cursor
            // accepts that.
            match self.holder_of(&name) {
                Some(ours) => clashes.push(NameClash { ours: ours.to_owned(), left_out: name }),
                None => servers.0.push((name, server)),
            }
        }
        Ok(Merged { servers, clashes, switched_off })
    }

    /// Returns the bytes of `mcp.json`.
    pub fn mcp_json(&self) -> Vec<u8> {
        let servers: Map<String, Value> = self
            .iter()
            .map(|(name, server)| (name.to_owned(), Value::from(server.definition().clone())))
            .collect();
        json_file::to_bytes(&json!({ "mcpServers": servers }))
    }

    /// Finds the server with this name.
    // Ignores case, because Cursor's `Mcp(server:tool)` permissions ignore it too: a user's `Caretaker` would get the
    // permissions of Caretaker's server.
    fn holder_of(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.iter().map(|(held, _)| held).find(|held| held.to_lowercase() == name)
    }
}

#[cfg(test)]
#[path = "server_list_tests.rs"]
mod tests;
