//! The repository's own `.cursor/mcp.json`. Caretaker does not trust it; the user may allow individual servers by name.

use std::fs::File;
use std::io;
use std::path::Path;

use cursor_home::{McpFileError, McpServer, UserServers};
use ground::plain_file::read_whole;
use run_protocol::RepositoryServer;
use rustix::fs::{Mode, OFlags, open, openat};

use super::{LARGEST_FILE, UserMcpError};

/// Returns all servers that the repository defines.
pub fn repository_servers(workspace: &Path) -> Result<Vec<String>, UserMcpError> {
    Ok(file_of(workspace)?.map_or_else(Vec::new, |file| file.names().map(str::to_owned).collect()))
}

/// Returns one server that the repository defines.
pub fn repository_server(workspace: &Path, name: &str) -> Result<McpServer, UserMcpError> {
    let unusable = |source| UserMcpError::Unusable { path: path_of(workspace), source };
    let file = file_of(workspace)?.unwrap_or_default();
    file.server(name).map_err(unusable)
}

/// Returns a server that the user allowed, if its definition is unchanged.
pub(super) fn allowed(
    workspace: &Path,
    allowed: &RepositoryServer,
) -> Result<McpServer, UserMcpError> {
    match repository_server(workspace, &allowed.name) {
        Ok(server) if server.digest() == allowed.sha256 => Ok(server),
        Ok(_) | Err(UserMcpError::Unusable { source: McpFileError::NoSuchServer { .. }, .. }) => {
            Err(UserMcpError::Changed(allowed.name.clone()))
        }
        Err(error) => Err(error),
    }
}

fn path_of(workspace: &Path) -> std::path::PathBuf {
    workspace.join(".cursor/mcp.json")
}

fn file_of(workspace: &Path) -> Result<Option<UserServers>, UserMcpError> {
    let path = path_of(workspace);
    let content = match read(workspace) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(UserMcpError::Read { path, source }),
    };
    match UserServers::parse(&content) {
        Ok(servers) => Ok(Some(servers)),
        Err(source) => Err(UserMcpError::Unusable { path, source }),
    }
}

/// Reads the file. Follows no link below the workspace, does not block on a FIFO, and reads a bounded number of bytes.
fn read(workspace: &Path) -> io::Result<Vec<u8>> {
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = open(workspace, directory, Mode::empty())?;
    let below = openat(&workspace, ".cursor", directory | OFlags::NOFOLLOW, Mode::empty())?;
    let plain = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&below, "mcp.json", plain, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    read_whole(file, LARGEST_FILE)
}
