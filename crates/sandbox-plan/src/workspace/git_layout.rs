//! Finds a workspace's git directory, and decides whether the sandbox may show it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host_path::{self, Directory, FileKind};
use crate::workspace::{SMALL_FILE, Surroundings, Tree, WorkspaceError};

/// The kind of a workspace's `.git`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GitLayout {
    None,
    /// An ordinary repository.
    Directory,
    /// `.git` is a file that names a directory in the workspace.
    InWorkspace {
        git_dir: PathBuf,
    },
    /// A linked worktree: `.git` is a file, and the repository is elsewhere.
    Worktree {
        git_dir: PathBuf,
        common_dir: PathBuf,
    },
    /// `.git` is a file, and the sandbox does not show the directory that it names. Git does not work inside.
    Hidden {
        reason: String,
    },
}

impl GitLayout {
    pub(crate) fn inspect(
        tree: &Tree,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, WorkspaceError> {
        let (workspace, dot_git) = (tree.path(), Path::new(".git"));
        match tree.look(dot_git)?.map(|found| found.kind) {
            None => return Ok(Self::None),
            Some(FileKind::Directory) => return Ok(Self::Directory),
            Some(FileKind::File) => {}
            Some(other) => return Err(WorkspaceError::Git(other)),
        }
        let text = tree.read_small(dot_git, SMALL_FILE);
        let named = text.ok().as_deref().and_then(|text| named_directory(text, workspace));
        let Some(git_dir) = named else {
            return Ok(Self::Hidden { reason: "its `.git` file names no directory".to_owned() });
        };
        if git_dir.starts_with(workspace) {
            // Neither the workspace nor its `.cursor`, which the run's own replaces, can be a git directory.
            let is_odd = git_dir == workspace || git_dir.starts_with(workspace.join(".cursor"));
            return Ok(match is_odd {
                true => Self::Hidden {
                    reason: format!("`{}` cannot be a git directory", git_dir.display()),
                },
                false => Self::InWorkspace { git_dir },
            });
        }
        Ok(match worktree(workspace, &git_dir, surroundings) {
            Ok(common_dir) => Self::Worktree { git_dir, common_dir },
            Err(reason) => Self::Hidden { reason },
        })
    }
}

/// Returns the common directory of a worktree, if the repository confirms that this is one of its worktrees.
///
/// A `.git` file is part of the workspace and may name any of the user's repositories. The proof is the repository's
/// own record of its worktree's path.
fn worktree(
    workspace: &Path,
    git_dir: &Path,
    surroundings: Surroundings<'_>,
) -> Result<PathBuf, String> {
    let directory = our_directory(git_dir, surroundings.uid)?;
    let read = |name: &str| {
        let bytes = directory.read_small(Path::new(name), SMALL_FILE);
        bytes.map_err(|err| format!("`{}` cannot be read: {err}", git_dir.join(name).display()))
    };
    let back = path_in_line(&read("gitdir")?, git_dir);
    if back != workspace.join(".git") {
        let (git_dir, back) = (git_dir.display(), back.display());
        return Err(format!("`{git_dir}` belongs to another worktree, `{back}`"));
    }
    let common_dir = path_in_line(&read("commondir")?, git_dir);
    our_directory(&common_dir, surroundings.uid)?;
    if git_dir.parent() != Some(&common_dir.join("worktrees")) {
        return Err(format!("`{}` is not where git keeps a worktree", git_dir.display()));
    }
    let home = surroundings.home;
    let too_wide =
        [home, workspace].into_iter().chain(surroundings.ours.iter().map(PathBuf::as_path));
    match too_wide.into_iter().find(|inner| inner.starts_with(&common_dir)) {
        Some(inner) => Err(format!("`{}` contains `{}`", common_dir.display(), inner.display())),
        None => Ok(common_dir),
    }
}

fn our_directory(path: &Path, uid: u32) -> Result<Directory, String> {
    let shown = path.display();
    let directory = Directory::open(path)
        .map_err(|err| format!("`{shown}` cannot be entered without following symlinks: {err}"))?;
    let owner = directory.found().map_err(|err| format!("`{shown}`: {err}"))?.uid;
    if owner != uid {
        return Err(format!("`{shown}` belongs to user {owner}"));
    }
    Ok(directory)
}

/// Reads `gitdir: <path>`.
pub(crate) fn named_directory(text: &[u8], workspace: &Path) -> Option<PathBuf> {
    let path = text.strip_prefix(b"gitdir: ")?;
    let is_path = !path.trim_ascii().is_empty() && !path.contains(&0);
    is_path.then(|| path_in_line(path, workspace))
}

fn path_in_line(line: &[u8], base: &Path) -> PathBuf {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    host_path::plain(&base.join(OsStr::from_bytes(&line[..end])))
}

#[cfg(test)]
#[path = "git_layout_tests.rs"]
mod tests;
