//! Checks this host's bubblewrap, and explains its error messages.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::host_path::{self, FileKind};

/// The options that a plan needs and that old versions lack.
const NEEDED_OPTIONS: [&str; 12] = [
    "--args",
    "--add-seccomp-fd",
    "--block-fd",
    "--chmod",
    "--clearenv",
    "--die-with-parent",
    "--disable-userns",
    "--json-status-fd",
    "--new-session",
    "--perms",
    "--size",
    "--unshare-cgroup-try",
];

/// From this version on, a symlink in the workspace cannot make bubblewrap create files elsewhere.
const WITHOUT_SYMLINK_HOLE: BwrapVersion = BwrapVersion { major: 0, minor: 12, patch: 0 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BwrapVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

/// A weakness of a bubblewrap version that users should know about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnownHole {
    #[error(
        "CVE-2026-87766: this bubblewrap may create files through symlinks of a workspace; \
         Caretaker refuses such workspaces, and 0.12.0 closes it"
    )]
    SymlinkDestination,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BwrapFileError {
    #[error("`{}` does not exist", .0.display())]
    Missing(PathBuf),
    #[error("`{}` is not an absolute path", .0.display())]
    NotAbsolute(PathBuf),
    #[error("`{}` is {kind}, not a program", .path.display())]
    NotAFile { path: PathBuf, kind: FileKind },
    #[error("`{}` cannot be executed", .0.display())]
    NotExecutable(PathBuf),
    #[error("`{}` is inside the workspace", .0.display())]
    InWorkspace(PathBuf),
    #[error("`{}` is set-user-id, which opens more security holes", .0.display())]
    SetUserId(PathBuf),
    #[error("`{}` belongs to user {owner}, not to root", .path.display())]
    NotRoots { path: PathBuf, owner: u32 },
    #[error("`{}` is writable by users other than root", .0.display())]
    WritableByOthers(PathBuf),
    #[error("cannot examine `{}`", .path.display())]
    Look { path: PathBuf, source: io::Error },
}

/// Why bubblewrap could not create a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BwrapProblem {
    #[error("this host allows no more user namespaces")]
    TooManyNamespaces,
    #[error("this host does not let ordinary users make user namespaces")]
    NamespacesForbidden,
    #[error("AppArmor lets bubblewrap create namespaces, but not use them")]
    AppArmor,
    #[error("a new /proc cannot be mounted, as in a container that hides parts of its own /proc")]
    MaskedProc,
    #[error("a path in the plan is missing or cannot be mounted")]
    Mount,
    #[error("the kernel did not accept the system call filters")]
    Seccomp,
    #[error("the program cannot be executed inside")]
    Exec,
    #[error("bubblewrap does not know an option, so it is too old")]
    UnknownOption,
    #[error("bubblewrap failed")]
    Other,
}

impl BwrapVersion {
    /// Parses the output of `bwrap --version`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.trim().strip_prefix("bubblewrap ")?;
        let mut parts = numbers.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { major, minor, patch })
    }

    /// Returns the known weaknesses of this version. A distribution may have fixed them without a new version number; see
    /// [`bwrap_symlink_trial`].
    pub fn known_holes(self) -> Vec<KnownHole> {
        if self < WITHOUT_SYMLINK_HOLE { vec![KnownHole::SymlinkDestination] } else { Vec::new() }
    }
}

impl fmt::Display for BwrapVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Returns the options that a plan needs and that `bwrap --help` does not list.
pub fn missing_bwrap_options(help: &str) -> Vec<&'static str> {
    let lists = |option: &str| help.split_whitespace().any(|word| word == option);
    NEEDED_OPTIONS.into_iter().filter(|option| !lists(option)).collect()
}

/// Returns arguments for a sandbox that does nothing, to test whether bubblewrap can create one.
pub fn bwrap_trial() -> Vec<OsString> {
    trial(&[])
}

/// Returns arguments for a sandbox that creates the directory `link/NAME`, to test for [`KnownHole::SymlinkDestination`]:
/// `link`, a symlink in `directory`, leads to a directory on the host by the path that it has while bubblewrap works.
pub fn bwrap_symlink_trial(directory: &Path, link: &str, name: &str) -> Vec<OsString> {
    let made = directory.join(link).join(name);
    let directory = directory.as_os_str();
    trial(&["--bind".as_ref(), directory, directory, "--dir".as_ref(), made.as_os_str()])
}

/// The directory where bubblewrap keeps the host's files while it makes a sandbox.
pub const OLD_ROOT: &str = "/oldroot";

fn trial(more: &[&OsStr]) -> Vec<OsString> {
    let sandbox = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--disable-userns",
        "--cap-drop",
        "ALL",
        "--new-session",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ];
    let program = ["--", "/bin/sh", "-c", ":"];
    let words = sandbox.iter().map(AsRef::as_ref).chain(more.iter().copied());
    words.chain(program.iter().map(AsRef::as_ref)).map(OsStr::to_owned).collect()
}

/// Checks bubblewrap's file, and returns its physical path. It must not be in the workspace.
pub fn check_bwrap_file(path: &Path, workspace: Option<&Path>) -> Result<PathBuf, BwrapFileError> {
    if !path.is_absolute() {
        return Err(BwrapFileError::NotAbsolute(path.to_owned()));
    }
    let resolved = host_path::resolve(path)
        .map_err(|source| BwrapFileError::Look { path: path.to_owned(), source })?;
    let Some((physical, found)) = resolved else {
        return Err(BwrapFileError::Missing(path.to_owned()));
    };
    if workspace.is_some_and(|workspace| physical.starts_with(workspace)) {
        return Err(BwrapFileError::InWorkspace(physical));
    }
    match found.kind {
        FileKind::File => {}
        kind => return Err(BwrapFileError::NotAFile { path: physical, kind }),
    }
    if found.mode & 0o4000 != 0 {
        return Err(BwrapFileError::SetUserId(physical));
    }
    if found.mode & 0o111 == 0 {
        return Err(BwrapFileError::NotExecutable(physical));
    }
    if found.uid != 0 {
        return Err(BwrapFileError::NotRoots { path: physical, owner: found.uid });
    }
    if found.mode & 0o022 != 0 {
        return Err(BwrapFileError::WritableByOthers(physical));
    }
    Ok(physical)
}

impl BwrapProblem {
    /// Classifies bubblewrap's error message.
    pub fn classify(stderr: &str) -> Self {
        let says = |words: &str| stderr.contains(words);
        if says("max_*_namespaces exceeded") || says("(ENOSPC)") {
            Self::TooManyNamespaces
        } else if says("No permissions to create new namespace")
            || says("No permissions to creating new namespace")
        {
            Self::NamespacesForbidden
        } else if says("setting up uid map: Permission denied")
            || says("RTM_NEWADDR: Operation not permitted")
        {
            Self::AppArmor
        } else if says("Can't mount proc") {
            Self::MaskedProc
        } else if says("Unknown option") {
            Self::UnknownOption
        } else if says("seccomp") || says("PR_SET_SECCOMP") {
            Self::Seccomp
        } else if says("execvp ") {
            Self::Exec
        } else if says("Can't find source path")
            || says("Can't bind mount")
            || says("Can't mkdir")
            || says("Can't create file")
            || says("Can't mount")
            || says("Can't remount")
            || says("Unable to mount")
        {
            Self::Mount
        } else {
            Self::Other
        }
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::TooManyNamespaces => {
                "raise the limit: sysctl user.max_user_namespaces=15000; inside another sandbox, that sandbox forbids it"
            }
            Self::NamespacesForbidden => {
                "allow them: sysctl kernel.unprivileged_userns_clone=1 (Debian), or kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
            }
            Self::AppArmor => {
                "give /usr/bin/bwrap an AppArmor profile with `userns,` in /etc/apparmor.d/bwrap, then: apparmor_parser -r /etc/apparmor.d/bwrap"
            }
            Self::MaskedProc => {
                "run the container with an unmasked /proc: docker run --security-opt systempaths=unconfined, or --privileged"
            }
            Self::UnknownOption => "install bubblewrap 0.8.0 or newer",
            Self::Mount | Self::Seccomp | Self::Exec | Self::Other => return None,
        })
    }
}

#[cfg(test)]
#[path = "bwrap_tests.rs"]
mod tests;
