//! A plan: bubblewrap's arguments, and everything that must be true before the agent starts.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use egress::AllowedHost;
use run_protocol::NetworkMode;

use crate::explain::Explained;
use crate::host_path::{FileIdentity, FileKind};
use crate::mount_points::{DotCursorMounts, MountPoints};
use crate::origin::Origin;
use crate::planner::CertificatesError;
use crate::profile::{Access, NetworkLimits};
use crate::seccomp::{FilterError, SeccompProgram};
use crate::step::{Arguments, PlanFds, PlannedStep, Step};
use crate::workspace::WorkspaceError;

/// A checked plan for one run.
#[derive(Debug)]
pub struct SandboxPlan {
    pub(crate) steps: Vec<PlannedStep>,
    pub(crate) data: Vec<DataFile>,
    pub(crate) programs: Vec<SeccompProgram>,
    pub(crate) program: Vec<OsString>,
    pub(crate) workspace: FileIdentity,
    pub(crate) mount_points: MountPoints,
    /// The configuration files of the repositories.
    pub(crate) git_configs: Vec<PathBuf>,
    pub(crate) dot_cursor: DotCursorMounts,
    pub(crate) warnings: Vec<PlanWarning>,
    pub(crate) network: PlannedNetwork,
}

/// The network inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNetwork {
    pub mode: NetworkMode,
    /// Who decided the mode.
    pub origin: Origin,
    /// The hosts that the agent may reach in `allowlist` mode, and who allowed each.
    pub allow: Vec<(AllowedHost, Origin)>,
    /// Whether the shim dials addresses of TUN proxies and VPNs. `None`: if the machine's route leads through a tunnel.
    pub tun: Option<bool>,
    pub limits: NetworkLimits,
}

/// A file whose contents the launcher passes through a descriptor.
#[derive(Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Its path inside the sandbox.
    pub inside: PathBuf,
    pub contents: Vec<u8>,
}

/// A warning for the user. The run continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanWarning {
    #[error(
        "you are root, so the files that the agent creates belong to root; an ordinary user is safer"
    )]
    Root,
    #[error("git does not work inside: {reason}")]
    GitHidden { reason: String },
    #[error("`{}` has another name (a hard link), through which the agent may be able to change it", .0.display())]
    HardLinked(PathBuf),
    #[error("git cannot commit in `{}`: {reason}", .path.display())]
    GitReadOnly { path: PathBuf, reason: &'static str },
    #[error(
        "`{}` is a symlink, so the agent can replace it: look at it before you use git there", .0.display()
    )]
    NestedLink(PathBuf),
    #[error(
        "the workspace is large: after {entries} entries the search for repositories stopped; the agent can change the \
         hooks and the configuration of repositories beyond them"
    )]
    NestedUnseen { entries: usize },
    #[error("`{}` is neither a file nor a directory, so the agent does not see it", .0.display())]
    NotShown(PathBuf),
    #[error("`{}` is in the workspace, so the agent can change it", .0.display())]
    ToolInWorkspace(PathBuf),
    #[error("the sandbox has no cache for {tool}, because of `{}`", .path.display())]
    CacheHidden { tool: String, path: PathBuf },
    #[error(
        "the files in `{}` are hard links to your package store, so the agent can change the store; install copies instead",
        .0.display()
    )]
    StoreLinked(PathBuf),
    #[error("`{}`, which {variable} names, is not shown inside: {why}", .path.display())]
    CertificatesNotShown { variable: String, path: PathBuf, why: CertificatesError },
}

impl PlanWarning {
    /// Returns true if the agent can change a file that the sandbox should protect.
    pub(crate) fn is_unprotected(&self) -> bool {
        match self {
            Self::HardLinked(_)
            | Self::NestedLink(_)
            | Self::NestedUnseen { .. }
            | Self::StoreLinked(_) => true,
            Self::Root
            | Self::GitHidden { .. }
            | Self::GitReadOnly { .. }
            | Self::NotShown(_)
            | Self::ToolInWorkspace(_)
            | Self::CacheHidden { .. }
            | Self::CertificatesNotShown { .. } => false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    #[error("the profile has no sandbox to plan")]
    NoSandbox,
    #[error("the profile `{profile}` refuses root")]
    RootCaller { profile: String },
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("`{0}` contains a NUL byte")]
    NulByte(String),
    #[error("`{}` is not an absolute path without `.` and `..`", .0.display())]
    NotPlain(PathBuf),
    #[error("`{}` is not the absolute path of a program", .0.display())]
    Program(OsString),
    #[error("the program `{}` is not visible inside", .0.display())]
    ProgramNotShown(PathBuf),
    #[error("`{}` cannot be a home directory inside a sandbox", .0.display())]
    HomeUnusable(PathBuf),
    #[error("the home directory `{}` is physically `{}`", .home.display(), .physical.display())]
    HomeNotPhysical { home: PathBuf, physical: PathBuf },
    #[error("`{}`, which the agent needs, does not exist", .0.display())]
    ExposedMissing(PathBuf),
    #[error("`{}`, which the agent runs from, is inside the workspace", .0.display())]
    ExposedInWorkspace(PathBuf),
    #[error("`{}` cannot be shown, because it contains `{}`", .path.display(), .inner.display())]
    ExposedTooWide { path: PathBuf, inner: PathBuf },
    #[error("`{}` does not exist", .0.display())]
    RunDirectoryMissing(PathBuf),
    #[error("`{}` is {kind}, not a directory", .path.display())]
    RunDirectoryKind { path: PathBuf, kind: FileKind },
    #[error("`{}` belongs to user {owner}", .path.display())]
    RunDirectoryOwner { path: PathBuf, owner: u32 },
    #[error("`{}` cannot be a file in the private home", .0.display())]
    PrivateFile(PathBuf),
    #[error("the sessions directory inside, `{}`, is not below the home directory", .0.display())]
    ChatsOutsideHome(PathBuf),
    #[error("`{}` would be covered by `{}`", .dest.display(), .by.display())]
    Covered { dest: PathBuf, by: PathBuf },
    #[error("the profile `{profile}` refuses to run while a file stays unprotected: {what}")]
    Unprotected { profile: String, what: PlanWarning },
    #[error("the workspace has {count} names that match `{pattern}`, too many to protect")]
    TooManyProtected { pattern: String, count: usize },
    #[error("`{0}` cannot be the name of a variable")]
    VariableName(String),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("the plan has {0} arguments, more than bubblewrap accepts")]
    TooManyArguments(usize),
    #[error("cannot examine `{}`", .path.display())]
    Look { path: PathBuf, source: io::Error },
}

impl SandboxPlan {
    /// Returns the options for `--args`, each followed by a NUL.
    pub fn bwrap_args(&self, fds: &PlanFds) -> Vec<u8> {
        let mut arguments = Arguments::default();
        for planned in &self.steps {
            planned.step.write(fds, &mut arguments);
        }
        arguments.add(["--json-status-fd", &fds.json_status.to_string()]);
        if let Some(block) = fds.block {
            arguments.add(["--block-fd", &block.to_string()]);
        }
        arguments.bytes
    }

    /// Returns bubblewrap's own command line. It contains no secret, because the agent can read it.
    // Bubblewrap accepts the command only on its real command line, never in `--args`.
    pub fn command_line(&self, args_fd: RawFd) -> Vec<OsString> {
        let options = ["--args".into(), args_fd.to_string().into(), "--".into()];
        options.into_iter().chain(self.program.iter().cloned()).collect()
    }

    /// Returns the contents for [`PlanFds::data`], in order.
    pub fn data_files(&self) -> &[DataFile] {
        &self.data
    }

    /// Returns the contents for [`PlanFds::seccomp`], in order.
    pub fn seccomp_programs(&self) -> &[SeccompProgram] {
        &self.programs
    }

    /// Returns the mount points that the shim creates on the host before the run starts and removes after it ends.
    pub fn mount_points_to_create(&self) -> &MountPoints {
        &self.mount_points
    }

    /// Returns the mount points in the run's `.cursor` for parts of the repository's own `.cursor`.
    pub fn dot_cursor_mounts(&self) -> &DotCursorMounts {
        &self.dot_cursor
    }

    /// Returns the device and inode of the workspace. They name its lock.
    pub fn workspace_identity(&self) -> FileIdentity {
        self.workspace
    }

    /// Returns the host's directories and files that the agent can write.
    pub fn writable_on_host(&self) -> impl Iterator<Item = &Path> {
        self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Bind { source, access: Access::ReadWrite, .. } => Some(source.as_path()),
            _ => None,
        })
    }

    /// Returns true if the sandbox has this file of the host at its own path. Ignores links in the path.
    pub fn shows(&self, path: &Path) -> bool {
        let covering = self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Bind { source, dest, .. } => Some((dest, source == dest)),
            Step::Symlink { dest, .. } => Some((dest, true)),
            Step::Tmpfs { dest, .. } => Some((dest, false)),
            _ => None,
        });
        // A later step covers an earlier one.
        covering.rev().find(|(dest, _)| path.starts_with(dest)).is_some_and(|(_, shows)| shows)
    }

    /// Returns the configuration files of repositories that have a read-only mount of their own, with their identities.
    pub fn git_configs(&self) -> impl Iterator<Item = (&Path, FileIdentity)> {
        self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Bind { source, dest, access: Access::ReadOnly, identity }
                if source == dest && self.git_configs.contains(dest) =>
            {
                Some((dest.as_path(), (*identity)?))
            }
            _ => None,
        })
    }

    /// Returns the writable directories in memory, each with its size in bytes.
    pub fn in_memory(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.steps.iter().filter_map(|planned| match &planned.step {
            Step::Tmpfs { dest, size, .. } => Some((dest.as_path(), *size)),
            _ => None,
        })
    }

    pub fn warnings(&self) -> &[PlanWarning] {
        &self.warnings
    }

    /// Returns the network inside, and what the launcher must provide for it.
    pub fn network(&self) -> &PlannedNetwork {
        &self.network
    }

    /// Describes every part of the plan, with its profile line.
    pub fn explain(&self) -> Vec<Explained> {
        let steps = self.steps.iter().map(PlannedStep::explain);
        steps.chain(self.network.explain()).collect()
    }
}

// The contents may be a login.
impl std::fmt::Debug for DataFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("DataFile");
        shown.field("inside", &self.inside).field("length", &self.contents.len()).finish()
    }
}
