//! The MCP servers that the agent gets: ours, and the user's own where they asked for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cursor_home::{
    DisabledServers, McpFileError, McpServer, McpServers, Merged, NameClash, ToolBudget,
    UserServers,
};
use run_protocol::{RunSpec, UserMcpFiles};

use crate::mcp_server;
use crate::private_roots::{SERVER, SOCKET_VARIABLE, SOCKETS_INSIDE};

/// More than anybody has; a file of Cursor's is a few kilobytes.
const LARGEST_FILE: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserMcpError {
    #[error("the user's MCP file `{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the user's MCP file `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: McpFileError },
}

/// What came of the user's wish for their own servers.
#[derive(Debug)]
pub struct UserMcpReport {
    /// The user's servers that the agent gets.
    pub added: Vec<String>,
    /// Left out, because one of ours has the name.
    pub clashes: Vec<NameClash>,
    /// Left out, because the user switched them off for this project.
    pub switched_off: Vec<String>,
    /// What all servers together take of the tools that Cursor admits.
    pub budget: ToolBudget,
}

/// Reads and checks the user's servers, if the run is to have them. `None`: it is not.
pub fn user_mcp(spec: &RunSpec) -> Result<Option<UserMcpReport>, UserMcpError> {
    let Some(files) = &spec.user_mcp else { return Ok(None) };
    // What our own server's command is has no part in it.
    let Merged { servers, clashes, switched_off } = merged(Path::new("caretaker"), files)?;
    let known = BTreeMap::from([(SERVER.to_owned(), mcp_server::n_tools())]);
    let added = servers.iter().map(|(name, _)| name).filter(|name| *name != SERVER);
    Ok(Some(UserMcpReport {
        added: added.map(str::to_owned).collect(),
        budget: ToolBudget::of(&servers, &known),
        clashes,
        switched_off,
    }))
}

/// All servers of a run.
pub(crate) fn servers(
    relay: &Path,
    user: Option<&UserMcpFiles>,
) -> Result<McpServers, UserMcpError> {
    match user {
        None => Ok(own(relay)),
        Some(files) => merged(relay, files).map(|merged| merged.servers),
    }
}

/// Ours alone.
pub(crate) fn own(relay: &Path) -> McpServers {
    let relay = relay.to_string_lossy();
    let socket = format!("{SOCKETS_INSIDE}/mcp.sock");
    let server = McpServer::stdio(&relay, ["mcp"], [(SOCKET_VARIABLE, socket.as_str())]);
    let mut servers = McpServers::default();
    // The first name added is never taken.
    servers.add(SERVER, server).ok();
    servers
}

fn merged(relay: &Path, files: &UserMcpFiles) -> Result<Merged, UserMcpError> {
    let path = files.servers.0.as_path();
    let unusable = |path: &Path, source| UserMcpError::Unusable { path: path.to_owned(), source };
    let content = read(path).map_err(|source| UserMcpError::Read { path: path.into(), source })?;
    let user = UserServers::parse(&content).map_err(|source| unusable(path, source))?;
    let mut disabled = DisabledServers::default();
    for file in &files.disabled {
        let content = match read(&file.0) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(UserMcpError::Read { path: file.0.clone(), source }),
        };
        let more = DisabledServers::parse(&content).map_err(|source| unusable(&file.0, source))?;
        disabled = disabled.and(more);
    }
    own(relay).merge_user(user, &disabled).map_err(|source| unusable(path, source))
}

/// Reads a file of the user's, following their links; whatever it is, without waiting and without end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Looked at before it is opened: a FIFO would make us wait.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
#[path = "agent_servers_tests.rs"]
mod tests;
