//! One MCP server from an `mcp.json`: checked, and kept exactly as written.

use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::mcp::secrets;

/// A server definition whose known fields have the right types. Keeps the order and unknown fields.
#[derive(Clone, PartialEq)]
pub struct McpServer {
    definition: Map<String, Value>,
    transport: Transport,
}

/// How Cursor talks to a server. `command` or `url` decides this, not the `type` field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Remote,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpServerError {
    #[error("its definition is not an object")]
    NotAnObject,
    #[error("it has neither `command` nor `url`")]
    NoTransport,
    #[error("it has both `command` and `url`")]
    TwoTransports,
    #[error("its `{field}` is not {expected}")]
    WrongType { field: &'static str, expected: &'static str },
}

/// The fields that Cursor accepts, with their types.
const FIELDS: [(&str, Shape); 10] = [
    ("type", Shape::Text),
    ("command", Shape::Text),
    ("args", Shape::TextList),
    ("env", Shape::TextMap),
    ("cwd", Shape::Text),
    ("envFile", Shape::Text),
    ("url", Shape::Text),
    ("headers", Shape::TextMap),
    ("auth", Shape::Object),
    ("enabledTools", Shape::TextList),
];

#[derive(Clone, Copy)]
enum Shape {
    Text,
    TextList,
    TextMap,
    Object,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::TextList => "a list of strings",
            Self::TextMap => "an object with string values",
            Self::Object => "an object",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::TextList => {
                value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
            }
            Self::TextMap => {
                value.as_object().is_some_and(|map| map.values().all(Value::is_string))
            }
            Self::Object => value.is_object(),
        }
    }
}

impl McpServer {
    /// Defines a server that Cursor starts itself.
    ///
    /// Cursor gives it almost no environment, so `args` or `env` must have everything it needs.
    pub fn stdio<'a>(
        command: &str,
        args: impl IntoIterator<Item = &'a str>,
        env: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        let env: Map<String, Value> =
            env.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        let mut definition = Map::new();
        definition.insert("command".to_owned(), Value::from(command));
        if !args.is_empty() {
            definition.insert("args".to_owned(), Value::from(args));
        }
        if !env.is_empty() {
            definition.insert("env".to_owned(), Value::from(env));
        }
        Self { definition, transport: Transport::Stdio }
    }

    /// Checks a definition from a file.
    pub fn from_json(definition: Value) -> Result<Self, McpServerError> {
        let Value::Object(definition) = definition else {
            return Err(McpServerError::NotAnObject);
        };
        for (field, shape) in FIELDS {
            if definition.get(field).is_some_and(|value| !shape.fits(value)) {
                return Err(McpServerError::WrongType { field, expected: shape.name() });
            }
        }
        let transport = match (definition.contains_key("command"), definition.contains_key("url")) {
            (true, false) => Transport::Stdio,
            (false, true) => Transport::Remote,
            (false, false) => return Err(McpServerError::NoTransport),
            // It is unknown which of the two Cursor would use, and the approval depends on it.
            (true, true) => return Err(McpServerError::TwoTransports),
        };
        Ok(Self { definition, transport })
    }

    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the definition as the file has it.
    pub fn definition(&self) -> &Map<String, Value> {
        &self.definition
    }

    /// Returns the values that must stay out of every record: headers, credentials, variables and arguments whose names
    /// mark them as secret, and passwords in URLs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        secrets::of(&self.definition).into_iter()
    }

    /// Returns the definition for display: without secrets, and without the values of variables.
    pub fn shown(&self) -> Value {
        secrets::without(&self.definition)
    }

    /// Returns a hash of this definition, in hex.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(Value::from(self.definition.clone()).to_string()))
    }

    /// Returns the host of a server with a `url`, and its port if the `url` has one. The error is the `url`.
    pub fn remote_host(&self) -> Option<Result<String, &str>> {
        let url = self.definition.get("url")?.as_str()?;
        Some(secure_host(url).ok_or(url))
    }

    /// Returns how many tools the definition itself allows, if it says so.
    pub fn n_enabled_tools(&self) -> Option<usize> {
        self.definition.get("enabledTools").and_then(Value::as_array).map(Vec::len)
    }
}

/// Returns the host of an `https` URL in the form that allow-lists use.
fn secure_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = host.strip_suffix(":443").unwrap_or(host);
    (scheme.eq_ignore_ascii_case("https") && !host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// Shows only the names of the fields: `env`, `headers` and `auth` hold secrets.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<&String> = self.definition.keys().collect();
        f.debug_struct("McpServer")
            .field("transport", &self.transport)
            .field("fields", &fields)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
