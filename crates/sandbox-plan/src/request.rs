//! The input of a plan.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use egress::AllowedHost;
use run_protocol::NetworkMode;

use crate::profile::Profile;
use crate::tool_caches::ToolCache;

/// The sandbox that a run needs. All paths are absolute paths on the host, unless a comment says otherwise.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    pub profile: Profile,
    /// Replaces the profile's mode.
    pub network: Option<NetworkMode>,
    /// Hosts that the agent may reach in addition to the profile's.
    pub allow_hosts: Vec<AllowedHost>,
    /// True if these hosts include the user's registries, so that tools can fetch dependencies.
    pub reaches_registries: bool,
    /// The workspace's physical path.
    pub workspace: PathBuf,
    /// The home directory's physical path. It is also its path inside.
    pub home: PathBuf,
    pub user: SandboxUser,
    /// Caretaker's own directories, which must stay outside: state and sockets.
    pub ours: Vec<PathBuf>,
    pub run_directories: RunDirectories,
    /// The run's harmless files. The sandbox shows them at paths where the agent must not create anything.
    pub placeholders: Placeholders,
    /// The `.cursor` that the shim generated for this run; becomes `<workspace>/.cursor`.
    pub dot_cursor: PathBuf,
    /// The run's socket directory; becomes `/run/caretaker`.
    pub inside_sockets: PathBuf,
    /// The session's private data root; becomes `$HOME/.cursor/projects`.
    pub data_root: PathBuf,
    pub chats: ChatsBind,
    /// The run's directory with its private copy of the login; becomes `$HOME/.config/cursor`. The agent can write it,
    /// because it renews its tokens there.
    pub login: Option<PathBuf>,
    /// Files that are in the private home at the start.
    pub private_home_files: Vec<PrivateFile>,
    /// The agent's program and the MCP relay, shown read-only at their own paths.
    pub expose: Vec<PathBuf>,
    /// Paths in `expose` that the sandbox shows from another place: path → place.
    pub stand_ins: BTreeMap<PathBuf, PathBuf>,
    /// The program that runs inside, as an absolute path, and its arguments.
    pub program: Vec<OsString>,
    pub env: Vec<EnvVariable>,
    /// The host's files with the user's own certificate authorities, by the variable that names each.
    pub certificates: BTreeMap<String, PathBuf>,
    /// The dependency caches of the workspace's tools.
    pub caches: Vec<ToolCache>,
    /// The repository's private caches, one directory for each tool.
    pub cache_directory: PathBuf,
}

/// The user, for `/etc/passwd` and `/etc/group` inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxUser {
    pub uid: u32,
    pub gid: u32,
    pub name: String,
}

/// Says whether the run's own directories must exist when the plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunDirectories {
    /// For a start: the plan records their identity, and the shim verifies it later.
    MustExist,
    /// For an explanation, or for checks before the run directory exists.
    MayBeMissing,
}

/// Files that take the place of names that the agent must not create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholders {
    /// An empty directory.
    pub directory: PathBuf,
    /// An empty file.
    pub file: PathBuf,
    /// A file with the text [`OWN_COMMON_DIR`].
    pub common_dir: PathBuf,
    /// A file with the text [`SHADOW_COMMON_DIR`].
    pub shadow_common_dir: PathBuf,
}

/// A `commondir` file that changes nothing: it tells git that the repository is where it is. Git rejects an empty file.
pub const OWN_COMMON_DIR: &[u8] = b".\n";

/// A `commondir` file that points git in a linked worktree to the directory for locks; see the planner's `git_locks`.
pub const SHADOW_COMMON_DIR: &[u8] = b"/run/repository.git\n";

/// The directories where the agent may look for the sessions of its workspace. They show no other session of the
/// workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatsBind {
    /// One of the run's directories. To the agent it looks like the directory of all sessions. The agent creates its
    /// other stores in it, such as those of sub-agents.
    pub bucket: PathBuf,
    /// One for each name that the agent's version may give to the bucket.
    pub views: Vec<BucketView>,
}

/// The bucket under one of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketView {
    /// Its path inside, below the home directory.
    pub inside: PathBuf,
    /// Host directories that the sandbox shows in the bucket under their own names: the session's own, and those of its
    /// sub-agents. The bucket has an empty directory for each.
    pub sessions: Vec<PathBuf>,
}

/// A file that is in the private home at the start. The agent may change and replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateFile {
    /// Relative to the home directory.
    pub path: PathBuf,
    pub contents: Vec<u8>,
    pub mode: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    pub name: OsString,
    pub value: OsString,
    pub source: VariableSource,
    pub secrecy: Secrecy,
}

/// The source of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableSource {
    /// Caretaker sets it. It always enters the sandbox.
    Run,
    /// The host sets it. It enters if the profile lets it in.
    Host,
}

/// Says whether Caretaker may show a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    Public,
    Secret,
}
