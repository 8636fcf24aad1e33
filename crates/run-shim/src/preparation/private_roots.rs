//! The files that the agent finds inside its sandbox: the run's `.cursor`, its data root, its private home.
//!
//! Files on disk are in the directories of the run and of the session. The sandbox gets the files of the private home
//! as bytes, which never touch a disk.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cursor_home::{
    CliConfig, McpServers, ProjectDir, WorkspacePath, WorkspacePathError, agent_cli_state_json,
    approvals_json, trust_marker_json,
};
use ground::{Durable, replace_file};
use run_protocol::{RunSpec, ToolApproval};

use crate::preparation::agents_directory::AgentsDirectory;

/// The path of the run's sockets inside the sandbox.
pub(crate) const SOCKETS_INSIDE: &str = "/run/caretaker";
/// The variable with the path of the relay's socket.
pub(crate) const SOCKET_VARIABLE: &str = "CARETAKER_SOCKET";
/// The name of the shim's server in `mcp.json`. It is short, because the combined length of a server's name and a
/// tool's name is limited.
pub(crate) const SERVER: &str = "caretaker";
/// A file in the private home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeFile {
    /// Relative to the home directory.
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// The run's own directories and files in the sandbox.
#[derive(Debug)]
pub(crate) struct PrivateRoots {
    /// Becomes `<workspace>/.cursor`.
    pub(crate) dot_cursor: PathBuf,
    /// Becomes `$HOME/.cursor/projects`.
    pub(crate) projects: PathBuf,
    pub(crate) home_files: Vec<HomeFile>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateRootsError {
    #[error("the files for the agent could not be written to `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Workspace(#[from] WorkspacePathError),
}

/// The content of the private roots.
#[derive(Debug)]
pub(crate) struct RootsRequest<'a> {
    pub(crate) run_dir: &'a Path,
    /// All runs of a session share it: approvals, trust, transcripts.
    pub(crate) session_dir: &'a Path,
    pub(crate) workspace: &'a WorkspacePath,
    /// The shim's own server, and those that the user chose.
    pub(crate) servers: &'a McpServers,
    pub(crate) config: &'a CliConfig,
    pub(crate) now_ms: u64,
}

impl RootsRequest<'_> {
    /// Returns the paths that `build` will make. Creates nothing.
    pub(crate) fn expected(&self) -> PrivateRoots {
        PrivateRoots {
            dot_cursor: self.run_dir.join("dotcursor"),
            projects: self.session_dir.join("data").join("projects"),
            home_files: self.home_files(),
        }
    }

    pub(crate) fn build(&self) -> Result<PrivateRoots, PrivateRootsError> {
        let roots = self.expected();
        make_dir(&roots.dot_cursor)?;
        make_dir(&roots.projects)?;
        // The approvals first, so that the agent never sees an unapproved server.
        self.write_approvals()?;
        self.write_mcp_json()?;
        write(&roots.dot_cursor.join("cli.json"), &self.config.to_project_json())?;
        let project = ProjectDir::at(roots.projects.join(self.workspace.slug()));
        let trust = trust_marker_json(self.workspace, self.now_ms)?;
        write_for_agent(&project.trust_marker(), &trust)?;
        Ok(roots)
    }

    /// Writes the servers' approvals into a directory that the agent can write to.
    pub(crate) fn write_approvals(&self) -> Result<(), PrivateRootsError> {
        let project = ProjectDir::at(self.expected().projects.join(self.workspace.slug()));
        let approvals = approvals_json(self.workspace.as_utf8()?, self.servers);
        write_for_agent(&project.approvals(), &approvals)
    }

    /// Replaces the list of servers with a rename. The sandbox mounts the directory, so a running agent sees the new
    /// file immediately, and never half of it.
    pub(crate) fn write_mcp_json(&self) -> Result<(), PrivateRootsError> {
        write(&mcp_json_in(self.run_dir), &self.servers.mcp_json())
    }

    fn home_files(&self) -> Vec<HomeFile> {
        let file =
            |path: &str, content: Vec<u8>| HomeFile { path: path.into(), content, mode: 0o600 };
        vec![
            file(".cursor/cli-config.json", self.config.to_json()),
            file(".cursor/agent-cli-state.json", agent_cli_state_json()),
        ]
    }
}

/// The settings of the agent in the sandbox: the user's rules, and leave to call the shim's own tools.
pub(crate) fn config_of(spec: &RunSpec) -> CliConfig {
    let policy = spec.policy.clone().unwrap_or_default();
    let of_user = match spec.tool_approval {
        ToolApproval::AllowList => policy.allow.as_slice(),
        // All tools are allowed anyway.
        ToolApproval::Force => &[],
    };
    let ours = cursor_home::every_tool_of(SERVER);
    CliConfig { allow: [&[ours], of_user].concat(), policy }
}

/// The generated `mcp.json` in the run's directory.
pub(crate) fn mcp_json_in(run_dir: &Path) -> PathBuf {
    run_dir.join("dotcursor").join("mcp.json")
}

fn make_dir(path: &Path) -> Result<(), PrivateRootsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| PrivateRootsError::Write { path: path.to_owned(), source })
}

/// Writes into a directory that the session's last agent could write to.
fn write_for_agent(path: &Path, content: &[u8]) -> Result<(), PrivateRootsError> {
    let failed = |source| PrivateRootsError::Write { path: path.to_owned(), source };
    let nameless = || failed(io::ErrorKind::InvalidInput.into());
    let directory = path.parent().ok_or_else(nameless)?;
    let parent = directory.parent().ok_or_else(nameless)?;
    let (directory, name) = directory.file_name().zip(path.file_name()).ok_or_else(nameless)?;
    let directory = AgentsDirectory::open(parent, directory).map_err(failed)?;
    directory.write(name, content).map_err(failed)
}

fn write(path: &Path, content: &[u8]) -> Result<(), PrivateRootsError> {
    let failed = |source| PrivateRootsError::Write { path: path.to_owned(), source };
    replace_file(path, content, Durable::No).map_err(failed)
}

#[cfg(test)]
#[path = "private_roots_tests.rs"]
mod tests;
