//! Reading a request from JSON, and refusing one that contradicts itself.

use super::RunRequest;

/// Why some JSON is not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
pub struct NotARequest {
    /// The invalid field, if the error is about one.
    pub field: Option<String>,
    pub why: String,
}

/// Two fields that exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` and `{1}` contradict each other")]
pub struct Contradiction(pub &'static str, pub &'static str);

impl RunRequest {
    /// Reads a request from the API or from a line of `--each`.
    pub fn from_json(json: &[u8]) -> Result<Self, NotARequest> {
        // serde also reads a struct from a list of its values. A list has no names, so serde would not notice a mistake
        // in it.
        if json.trim_ascii_start().first() == Some(&b'[') {
            let why = "it is a list, not an object".to_owned();
            return Err(NotARequest { field: None, why });
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let request: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let is_data = error.inner().is_data();
            let why = error.inner().to_string();
            let path = error.path().iter().next().map(ToString::to_string);
            let field = path.filter(|_| is_data && !why.starts_with("unknown field"));
            match field {
                // The user may have typed the secret itself here: do not repeat it.
                Some(field) if field == "secret" => {
                    let why = "write a list of NAME=env:VARIABLE or NAME=file:PATH".to_owned();
                    NotARequest { field: Some(field), why }
                }
                Some(field) => {
                    let end = why.rfind(" at line ").unwrap_or(why.len());
                    NotARequest { field: Some(field), why: why[..end].to_owned() }
                }
                None => NotARequest { field, why },
            }
        })?;
        reader.end().map_err(|error| NotARequest { field: None, why: error.to_string() })?;
        let contradiction = request.contradiction();
        let refused = contradiction.map(|it| NotARequest { field: None, why: it.to_string() });
        refused.map_or(Ok(request), Err)
    }

    /// Finds two fields that clap would refuse together on a command line.
    fn contradiction(&self) -> Option<Contradiction> {
        let pairs = [
            (self.user_mcp && self.no_user_mcp, Contradiction("user_mcp", "no_user_mcp")),
            (self.user_mcp && !self.mcp.is_empty(), Contradiction("mcp", "user_mcp")),
            (self.force && self.no_force, Contradiction("force", "no_force")),
            (self.worktree && self.session.is_some(), Contradiction("worktree", "session")),
        ];
        pairs.into_iter().find_map(|(is_both, contradiction)| is_both.then_some(contradiction))
    }
}
