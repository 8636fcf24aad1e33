//! The user's own MCP files: `~/.cursor/mcp.json` and a project's `mcp-disabled.json`.

use std::fmt;

use serde_json::{Map, Value};

use crate::mcp::server::{McpServer, McpServerError};

/// The user's file that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpFile {
    Servers,
    Disabled,
}

impl fmt::Display for McpFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => "mcp.json",
            Self::Disabled => "mcp-disabled.json",
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpFileError {
    #[error("{file} is not valid JSON")]
    NotJson { file: McpFile, source: serde_json::Error },
    #[error("{file} is not {expected}")]
    WrongShape { file: McpFile, expected: &'static str },
    #[error("its server `{name}` cannot be used")]
    Server { name: String, source: McpServerError },
    #[error("it has no server `{name}`{}", others(.known))]
    NoSuchServer { name: String, known: Vec<String> },
}

/// The servers of the user's `mcp.json`, in their order, not yet checked.
#[derive(Clone, Default)]
pub struct UserServers(Map<String, Value>);

impl UserServers {
    pub fn parse(bytes: &[u8]) -> Result<Self, McpFileError> {
        let wrong_shape = |expected| McpFileError::WrongShape { file: McpFile::Servers, expected };
        match parse_json(McpFile::Servers, bytes)? {
            Value::Object(file) if file.is_empty() => Ok(Self::default()),
            // A file with only other keys has a different format, such as another editor's `servers`.
            Value::Object(mut file) => match file.remove("mcpServers") {
                Some(Value::Object(servers)) => Ok(Self(servers)),
                _ => Err(wrong_shape("an object with an `mcpServers` object")),
            },
            _ => Err(wrong_shape("an object")),
        }
    }

    /// Returns the names of all servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Checks the server with this name.
    pub fn server(&self, name: &str) -> Result<McpServer, McpFileError> {
        let Some(definition) = self.0.get(name) else {
            let (name, known) = (name.to_owned(), self.names().map(str::to_owned).collect());
            return Err(McpFileError::NoSuchServer { name, known });
        };
        McpServer::from_json(definition.clone())
            .map_err(|source| McpFileError::Server { name: name.to_owned(), source })
    }

    /// Keeps the servers with these names. Each must exist.
    pub fn only(mut self, names: &[String]) -> Result<Self, McpFileError> {
        if let Some(name) = names.iter().find(|name| !self.0.contains_key(*name)) {
            let (name, known) = (name.clone(), self.names().map(str::to_owned).collect());
            return Err(McpFileError::NoSuchServer { name, known });
        }
        self.0.retain(|name, _| names.contains(name));
        Ok(self)
    }

    /// Checks the servers that are switched on. A server that is switched off may be invalid.
    pub(crate) fn sort_out(self, disabled: &DisabledServers) -> Result<SortedOut, McpFileError> {
        let mut sorted = SortedOut::default();
        for (name, definition) in self.0 {
            if disabled.contains(&name) {
                sorted.switched_off.push(name);
                continue;
            }
            match McpServer::from_json(definition) {
                Ok(server) => sorted.switched_on.push((name, server)),
                Err(source) => return Err(McpFileError::Server { name, source }),
            }
        }
        Ok(sorted)
    }
}

fn others(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!("; it has {}", known.join(", ")),
    }
}

/// The user's servers, switched on or off by `mcp-disabled.json`.
#[derive(Debug, Default)]
pub(crate) struct SortedOut {
    pub(crate) switched_on: Vec<(String, McpServer)>,
    pub(crate) switched_off: Vec<String>,
}

/// Shows only the names: the definitions hold secrets.
impl fmt::Debug for UserServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserServers").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

/// The servers that the user switched off for a project.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisabledServers(Vec<String>);

impl DisabledServers {
    /// Parses the file. Cursor does not document its format.
    ///
    /// Reports agree on a list of server names. This also accepts two similar forms: a list of approval ids
    /// (`<name>-<16 hex>`), as in `mcp-approvals.json` next to it, and an object that maps names to `true` or `false`.
    pub fn parse(bytes: &[u8]) -> Result<Self, McpFileError> {
        let read = match parse_json(McpFile::Disabled, bytes)? {
            Value::Array(entries) => entries.into_iter().map(name_in_list).collect(),
            Value::Object(entries) => entries.into_iter().filter_map(name_in_object).collect(),
            _ => None,
        };
        let expected = "a list of server names or an object that maps names to true or false";
        read.map(Self).ok_or(McpFileError::WrongShape { file: McpFile::Disabled, expected })
    }

    /// Joins both lists.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns true if a server is switched off. Ignores the hash of an id, because an old id still means this server.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|entry| match entry.strip_prefix(name) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('-').is_some_and(is_approval_hash),
            None => false,
        })
    }
}

fn name_in_list(entry: Value) -> Option<String> {
    match entry {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// Returns `None` for a server that is switched on, and `Some(None)` for an entry of the wrong type.
fn name_in_object((name, value): (String, Value)) -> Option<Option<String>> {
    match value {
        Value::Bool(true) => Some(Some(name)),
        Value::Bool(false) => None,
        _ => Some(None),
    }
}

fn is_approval_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn parse_json(file: McpFile, bytes: &[u8]) -> Result<Value, McpFileError> {
    serde_json::from_slice(bytes).map_err(|source| McpFileError::NotJson { file, source })
}

#[cfg(test)]
#[path = "user_files_tests.rs"]
mod tests;
