//! The workspace, and the checks that it must pass before Caretaker creates anything for it.

pub(crate) mod git_config;
pub(crate) mod git_layout;
pub(crate) mod nested_repositories;

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use git_layout::GitLayout;

use crate::host_path::{self, Directory, FileIdentity, FileKind, Found};

/// System directories. Neither they nor anything below them can be a workspace.
const SYSTEM_TREES: [&str; 12] = [
    "/usr", "/etc", "/proc", "/sys", "/dev", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
    "/libx32",
];

/// Directories that cannot be a workspace themselves. Projects below them are common.
const SHARED_DIRECTORIES: [&str; 10] =
    ["/tmp", "/var", "/var/tmp", "/var/lib", "/run", "/home", "/opt", "/srv", "/mnt", "/media"];

/// The size limit for git's own small files, such as `.git` and `commondir`.
pub(crate) const SMALL_FILE: u64 = 8 * 1024;

/// The directory of Caretaker's own worktrees. A run may work in each directory below it.
const WORKTREES: &str = "worktrees";

/// The user of a run, and the directories that limit where its workspace may be.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub uid: u32,
    pub home: &'a Path,
    /// Caretaker's own directories: state and sockets.
    pub ours: &'a [PathBuf],
}

/// A directory with files that an agent or a repository made, and its physical path.
#[derive(Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    directory: Directory,
}

/// A workspace that passed the checks.
#[derive(Debug)]
pub struct Workspace {
    tree: Tree,
    found: Found,
    dot_cursor: DotCursor,
    git: GitLayout,
}

/// The repository's own `.cursor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DotCursor {
    Missing,
    Directory,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    #[error("the workspace `{}` is not an absolute path", .0.display())]
    NotAbsolute(PathBuf),
    #[error("the workspace path contains a NUL byte")]
    NulByte,
    #[error("the workspace `{}` is not UTF-8, and node cannot work in such a directory", .0.display())]
    NotUtf8(PathBuf),
    #[error("the workspace `{}` does not exist", .0.display())]
    Missing(PathBuf),
    #[error("the workspace `{}` is a symlink; name the directory itself", .0.display())]
    Symlink(PathBuf),
    #[error("the workspace `{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("the workspace `{}` is physically `{}`", .path.display(), .physical.display())]
    NotPhysical { path: PathBuf, physical: PathBuf },
    #[error("the workspace cannot be `/`")]
    Root,
    #[error("the workspace cannot be the home directory")]
    Home,
    #[error("the workspace `{}` contains `{}`, which must stay out of a sandbox", .path.display(), .inner.display())]
    Contains { path: PathBuf, inner: PathBuf },
    #[error("the workspace `{}` is inside `{}`, which is Caretaker's own", .path.display(), .outer.display())]
    InsideOurs { path: PathBuf, outer: PathBuf },
    #[error("the workspace `{}` belongs to the system", .0.display())]
    System(PathBuf),
    #[error("the workspace `{}` belongs to user {owner}, not to you (user {uid})", .path.display())]
    NotOurs { path: PathBuf, owner: u32, uid: u32 },
    #[error("the workspace `{}` cannot be entered and changed by its owner (mode {mode:04o})", .path.display())]
    Unusable { path: PathBuf, mode: u32 },
    #[error("the workspace's `.cursor` is {0}, not a directory")]
    DotCursor(FileKind),
    #[error("the workspace's `.cursor/mcp.json` is {0}, not a file")]
    McpJson(FileKind),
    #[error("the workspace's `.git` is {0}, neither a directory nor a file")]
    Git(FileKind),
    #[error("`{}` is a symlink, so Caretaker cannot protect it", .0.display())]
    ProtectedSymlink(PathBuf),
    #[error("`{}` is {kind}, and Caretaker can protect only files and directories", .path.display())]
    ProtectedKind { path: PathBuf, kind: FileKind },
    #[error("`{}` says that the repository is elsewhere; only a linked worktree may have such a file", .0.display())]
    CommonDir(PathBuf),
    #[error("cannot examine `{}`", .path.display())]
    Look { path: PathBuf, source: io::Error },
}

impl Workspace {
    /// Checks a workspace. Changes nothing.
    ///
    /// It resolves symlinks on the way to the workspace: [`Self::path`] is the physical path.
    pub fn inspect(path: &Path, surroundings: Surroundings<'_>) -> Result<Self, WorkspaceError> {
        if host_path::has_nul(path.as_os_str()) {
            return Err(WorkspaceError::NulByte);
        }
        if !path.is_absolute() {
            return Err(WorkspaceError::NotAbsolute(path.to_owned()));
        }
        let path = physical(path)?;
        if path.to_str().is_none() {
            return Err(WorkspaceError::NotUtf8(path));
        }
        check_place(&path, surroundings)?;

        let tree = Tree::open(&path)?;
        let found = tree.directory.found().map_err(|source| look_error(&path, source))?;
        if found.uid != surroundings.uid {
            let (owner, uid) = (found.uid, surroundings.uid);
            return Err(WorkspaceError::NotOurs { path, owner, uid });
        }
        if found.mode & 0o700 != 0o700 {
            return Err(WorkspaceError::Unusable { path, mode: found.mode });
        }
        let dot_cursor = inspect_dot_cursor(&tree)?;
        let git = GitLayout::inspect(&tree, surroundings)?;
        Ok(Self { tree, found, dot_cursor, git })
    }

    /// Returns the physical path.
    pub fn path(&self) -> &Path {
        &self.tree.path
    }

    /// Returns the device and inode. They name the workspace's lock.
    pub fn identity(&self) -> FileIdentity {
        self.found.identity
    }

    pub(crate) fn dot_cursor(&self) -> DotCursor {
        self.dot_cursor
    }

    pub(crate) fn git(&self) -> &GitLayout {
        &self.git
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn found(&self) -> Found {
        self.found
    }
}

impl Tree {
    pub(crate) fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let directory = Directory::open(path).map_err(|source| look_error(path, source))?;
        Ok(Self { path: path.to_owned(), directory })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the file at a path below this tree, if one exists. Follows no symlink.
    pub(crate) fn look(&self, relative: &Path) -> Result<Option<Found>, WorkspaceError> {
        self.directory.look(relative).map_err(|source| {
            let path = self.path.join(relative);
            match Errno::from_io_error(&source) {
                Some(Errno::LOOP) => WorkspaceError::ProtectedSymlink(path),
                _ => WorkspaceError::Look { path, source },
            }
        })
    }

    /// Reads a small regular file below this tree.
    pub(crate) fn read_small(&self, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.directory.read_small(relative, limit)
    }
}

fn look_error(path: &Path, source: io::Error) -> WorkspaceError {
    WorkspaceError::Look { path: path.to_owned(), source }
}

/// Returns the physical path of a directory. The kernel knows it once the directory is open.
fn physical(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A trailing slash would make the kernel follow a symlink.
    let plain: PathBuf = path.components().collect();
    let fd = match rustix::fs::open(&plain, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Err(WorkspaceError::Missing(plain)),
        Err(Errno::NOTDIR) => return Err(WorkspaceError::NotADirectory(plain)),
        Err(err) => return Err(look_error(&plain, err.into())),
    };
    match Found::of(&fd).map_err(|source| look_error(&plain, source))?.kind {
        FileKind::Directory => {}
        FileKind::Symlink => return Err(WorkspaceError::Symlink(plain)),
        _ => return Err(WorkspaceError::NotADirectory(plain)),
    }
    let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    std::fs::read_link(by_number).map_err(|source| look_error(&plain, source))
}

fn check_place(path: &Path, surroundings: Surroundings<'_>) -> Result<(), WorkspaceError> {
    if path == Path::new("/") {
        return Err(WorkspaceError::Root);
    }
    let home = host_path::physical(surroundings.home);
    if path == home {
        return Err(WorkspaceError::Home);
    }
    let is_system = SYSTEM_TREES.iter().any(|tree| path.starts_with(tree))
        || SHARED_DIRECTORIES.iter().any(|directory| path == Path::new(directory));
    if is_system {
        return Err(WorkspaceError::System(path.to_owned()));
    }
    let ours: Vec<PathBuf> =
        surroundings.ours.iter().map(|ours| host_path::physical(ours)).collect();
    let dot_cursor = host_path::physical(&home.join(".cursor"));
    for inner in ours.iter().chain([&home, &dot_cursor]) {
        if inner.starts_with(path) {
            return Err(WorkspaceError::Contains { path: path.to_owned(), inner: inner.clone() });
        }
    }
    // Agents make worktrees below `~/.cursor`, so only Caretaker's own directories are off limits. Even there, runs may
    // work in the worktrees that Caretaker made.
    let is_made_for_it = |outer: &PathBuf| path.parent() == Some(&outer.join(WORKTREES));
    match ours.into_iter().find(|outer| path.starts_with(outer) && !is_made_for_it(outer)) {
        Some(outer) => Err(WorkspaceError::InsideOurs { path: path.to_owned(), outer }),
        None => Ok(()),
    }
}

fn inspect_dot_cursor(tree: &Tree) -> Result<DotCursor, WorkspaceError> {
    let dot_cursor = Path::new(".cursor");
    match tree.look(dot_cursor)?.map(|found| found.kind) {
        None => return Ok(DotCursor::Missing),
        Some(FileKind::Directory) => {}
        Some(other) => return Err(WorkspaceError::DotCursor(other)),
    }
    match tree.look(&dot_cursor.join("mcp.json"))?.map(|found| found.kind) {
        None | Some(FileKind::File) => Ok(DotCursor::Directory),
        Some(other) => Err(WorkspaceError::McpJson(other)),
    }
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
