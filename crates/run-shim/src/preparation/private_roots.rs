//! The files that the agent finds inside its sandbox: our `.cursor`, its data root, its private home.
//!
//! What is on disk lies in the run's directory and in the session's; what is only for this run is handed to the sandbox
//! as bytes and never touches a disk.

use std::fs::{self, DirBuilder};
use std::io::{self};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cursor_home::{
    CliConfig, CursorRoots, McpServers, ProjectDir, WorkspacePath, WorkspacePathError,
    agent_cli_state_json, approvals_json, trust_marker_json,
};
use ground::{Durable, replace_file};
use sandbox_plan::{Nothing, OWN_COMMON_DIR};

use crate::preparation::agents_directory::AgentsDirectory;

/// Where the run's sockets are mounted inside.
pub(crate) const SOCKETS_INSIDE: &str = "/run/caretaker";
/// The variable that tells our relay its socket.
pub(crate) const SOCKET_VARIABLE: &str = "CARETAKER_SOCKET";
/// Our server's name in `mcp.json`: short, because names of server and tool together are limited.
pub(crate) const SERVER: &str = "caretaker";
/// A file of the private home: where, what, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeFile {
    /// Below the home directory.
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// What the sandbox is made of, apart from the machine itself.
#[derive(Debug)]
pub(crate) struct PrivateRoots {
    /// Becomes `<workspace>/.cursor`.
    pub(crate) dot_cursor: PathBuf,
    /// Becomes `$HOME/.cursor/projects`.
    pub(crate) projects: PathBuf,
    /// This workspace's bucket of chats on the host, and where the agent looks for it.
    pub(crate) chats_on_host: PathBuf,
    pub(crate) chats_inside: PathBuf,
    pub(crate) home_files: Vec<HomeFile>,
    /// A directory and a file with nothing in them.
    pub(crate) nothing: Nothing,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateRootsError {
    #[error("the files for the agent could not be written to `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Workspace(#[from] WorkspacePathError),
}

/// What goes into the private roots.
#[derive(Debug)]
pub(crate) struct RootsRequest<'a> {
    pub(crate) run_dir: &'a Path,
    /// Kept from run to run of a session: approvals, trust, transcripts.
    pub(crate) session_dir: &'a Path,
    pub(crate) workspace: &'a WorkspacePath,
    pub(crate) home: &'a Path,
    pub(crate) host_config_root: &'a Path,
    /// Ours, and the user's own where they asked for them.
    pub(crate) servers: &'a McpServers,
    pub(crate) now_ms: u64,
}

impl RootsRequest<'_> {
    /// What `build` will make, without making it.
    pub(crate) fn expected(&self) -> PrivateRoots {
        let inside = CursorRoots::in_sandbox(self.home);
        PrivateRoots {
            dot_cursor: self.run_dir.join("dotcursor"),
            projects: self.session_dir.join("data").join("projects"),
            chats_on_host: self.host_config_root.join("chats").join(self.workspace.bucket()),
            chats_inside: inside.chats_of(self.workspace),
            home_files: self.home_files(),
            nothing: Nothing {
                directory: self.run_dir.join("nothing").join("directory"),
                file: self.run_dir.join("nothing").join("file"),
                common_dir: self.run_dir.join("nothing").join("commondir"),
            },
        }
    }

    pub(crate) fn build(&self) -> Result<PrivateRoots, PrivateRootsError> {
        let roots = self.expected();
        make_dir(&roots.dot_cursor)?;
        make_dir(&roots.projects)?;
        // Approved before they can be read.
        self.write_approvals()?;
        self.write_mcp_json()?;
        let project = ProjectDir::at(roots.projects.join(self.workspace.slug()));
        let trust = trust_marker_json(self.workspace, self.now_ms)?;
        write_for_agent(&project.trust_marker(), &trust)?;
        Ok(roots)
    }

    /// Makes what is shown where nothing is to be created.
    pub(crate) fn make_nothing(&self) -> Result<(), PrivateRootsError> {
        let nothing = self.expected().nothing;
        make_dir(&nothing.directory)?;
        write(&nothing.file, b"")?;
        write(&nothing.common_dir, OWN_COMMON_DIR)
    }

    /// Says that the servers are approved, in a directory that the agent can write.
    pub(crate) fn write_approvals(&self) -> Result<(), PrivateRootsError> {
        let project = ProjectDir::at(self.expected().projects.join(self.workspace.slug()));
        let approvals = approvals_json(self.workspace.as_utf8()?, self.servers);
        write_for_agent(&project.approvals(), &approvals)
    }

    /// Says which servers there are. The file takes its place by a rename, and the sandbox mounts its directory: an agent
    /// that runs sees the new file at once, and never half of one.
    pub(crate) fn write_mcp_json(&self) -> Result<(), PrivateRootsError> {
        write(&mcp_json_in(self.run_dir), &self.servers.mcp_json())
    }

    fn home_files(&self) -> Vec<HomeFile> {
        let config =
            CliConfig { allow: vec![cursor_home::every_tool_of(SERVER)], ..CliConfig::default() };
        let file =
            |path: &str, content: Vec<u8>| HomeFile { path: path.into(), content, mode: 0o600 };
        vec![
            file(".cursor/cli-config.json", config.to_json()),
            file(".cursor/agent-cli-state.json", agent_cli_state_json()),
            file(".gitconfig", git_config(self.home).into_bytes()),
            // Where git looks by itself: `git add -A` must not commit what is ours.
            file(".config/git/ignore", b"/.cursor/mcp.json\n".to_vec()),
        ]
    }
}

/// The generated file, in the run's directory.
pub(crate) fn mcp_json_in(run_dir: &Path) -> PathBuf {
    run_dir.join("dotcursor").join("mcp.json")
}

/// An identity to commit with: the user's own, as far as their `.gitconfig` says it plainly.
fn git_config(home: &Path) -> String {
    let own = fs::read_to_string(home.join(".gitconfig")).unwrap_or_default();
    let name = git_user_value(&own, "name").unwrap_or("Cursor Agent");
    let email = git_user_value(&own, "email").unwrap_or("agent@localhost");
    // Inside, the workspace may seem to belong to somebody else; it was checked to be ours before.
    format!(
        "[user]\n\tname = {}\n\temail = {}\n[safe]\n\tdirectory = *\n",
        git_quoted(name),
        git_quoted(email)
    )
}

fn git_user_value<'t>(config: &'t str, key: &str) -> Option<&'t str> {
    let mut in_user = false;
    let mut found = None;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            in_user = section.trim_end_matches(']').trim().eq_ignore_ascii_case("user");
        } else if in_user
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim().trim_matches('"'));
        }
    }
    found.filter(|value| !value.is_empty())
}

fn git_quoted(value: &str) -> String {
    let escaped: String = value
        .chars()
        .filter(|character| !character.is_control())
        .flat_map(|character| match character {
            '"' | '\\' => vec!['\\', character],
            _ => vec![character],
        })
        .collect();
    format!("\"{escaped}\"")
}

fn make_dir(path: &Path) -> Result<(), PrivateRootsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| PrivateRootsError::Write { path: path.to_owned(), source })
}

/// Writes into a directory that the session's last agent could write.
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
