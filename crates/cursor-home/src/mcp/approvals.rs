//! `mcp-approvals.json`: the servers that Cursor may start in a project without asking.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::json_file;
use crate::mcp::server::{McpServer, Transport};
use crate::mcp::server_list::McpServers;

/// Returns the id under which Cursor looks up the approval of a server: its name and a hash of its definition and
/// project.
///
/// `project_root` is the root that the agent itself sees: the top of the git tree, or else the workspace.
pub fn approval_id(project_root: &str, name: &str, server: &McpServer) -> String {
    let approved = json!({ "path": project_root, "server": normalised(server) });
    // serde_json escapes as `JSON.stringify` does, so the hashed text is the same byte for byte.
    let hash = hex::encode(Sha256::digest(approved.to_string()));
    format!("{name}-{}", &hash[..16])
}

/// Returns the bytes of an `mcp-approvals.json` that approves all these servers.
pub fn approvals_json(project_root: &str, servers: &McpServers) -> Vec<u8> {
    let ids = servers.iter().map(|(name, server)| approval_id(project_root, name, server));
    json_file::to_bytes(&Value::from_iter(ids))
}

/// Picks the fields that go into the hash, in Cursor's order.
fn normalised(server: &McpServer) -> Map<String, Value> {
    let fields: &[&str] = match server.transport() {
        Transport::Stdio => &["type", "command", "args", "env", "cwd"],
        Transport::Remote => &["type", "url", "headers"],
    };
    let definition = server.definition();
    let given = fields.iter().filter_map(|field| definition.get_key_value(*field));
    given.map(|(field, value)| (field.clone(), in_js_order(value))).collect()
}

/// Orders the keys of an object as JavaScript enumerates them: array indices by number first, the rest as read.
fn in_js_order(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(key, _)| array_index(key).unwrap_or(u32::MAX));
    Value::from_iter(entries.into_iter().map(|(key, value)| (key.clone(), value.clone())))
}

/// Parses a key that JavaScript treats as an array index: below 2³² − 1, spelled as a number.
fn array_index(key: &str) -> Option<u32> {
    let index: u32 = key.parse().ok()?;
    (index != u32::MAX && index.to_string() == key).then_some(index)
}

#[cfg(test)]
#[path = "approvals_tests.rs"]
mod tests;
