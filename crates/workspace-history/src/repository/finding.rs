//! Finds the repository of a directory as git does, but follows no link.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::file_tree::FileTree;
use crate::tree_path::TreePath;

const MOST_TEXT: u64 = 8 * 1024;
/// A configuration may list hundreds of branches.
const MOST_CONFIG: u64 = 1 << 20;

/// The directories of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The checkout: the directory that contains `.git`.
    pub root: PathBuf,
    /// This checkout's own directory: HEAD and index.
    pub git_dir: PathBuf,
    /// The directory that all checkouts share: objects, branches, configuration.
    pub common_dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    #[error("`{}` is {what}, and git would use it", path.display())]
    Unsound { path: PathBuf, what: &'static str },
    #[error("`{}` names no git directory", .0.display())]
    NamesNothing(PathBuf),
    #[error("`{}` says that most of the repository is elsewhere", .0.display())]
    CommonDir(PathBuf),
    #[error(
        "`{}` names `{}`, and that repository does not say that this is its checkout",
        file.display(),
        named.display()
    )]
    Foreign { file: PathBuf, named: PathBuf },
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` has too many files to check", .0.display())]
    TooMuch(PathBuf),
}

impl Repository {
    /// Finds the repository that contains a directory.
    pub fn around(directory: &Path) -> Result<Option<Self>, RepositoryError> {
        let read = |source| RepositoryError::Read { path: directory.to_owned(), source };
        let directory = std::fs::canonicalize(directory).map_err(read)?;
        for root in directory.ancestors() {
            if let Some(found) = Self::at(root)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Finds the repository whose checkout is exactly this directory.
    pub fn at(root: &Path) -> Result<Option<Self>, RepositoryError> {
        let dot_git = root.join(".git");
        let found = match dot_git.symlink_metadata() {
            Ok(found) => FileType::from_raw_mode(found.mode()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RepositoryError::Read { path: dot_git, source }),
        };
        if found == FileType::Directory {
            // Git skips a `.git` that is not a repository, and looks in the parent directory.
            let is_one = ["HEAD", "objects", "refs"]
                .iter()
                .all(|name| dot_git.join(name).symlink_metadata().is_ok());
            return if is_one { Self::whole(root, dot_git).map(Some) } else { Ok(None) };
        }
        if found != FileType::RegularFile {
            return Err(RepositoryError::Unsound { path: dot_git, what: in_words(found) });
        }
        Self::named(root, dot_git).map(Some)
    }

    /// `.git` is the whole repository.
    fn whole(root: &Path, git_dir: PathBuf) -> Result<Self, RepositoryError> {
        let common = line_of(&git_dir, "commondir", "").map(|common| git_dir.join(common));
        let is_own = |common: &PathBuf| std::fs::canonicalize(common).is_ok_and(|at| at == git_dir);
        match common {
            // A run creates a `commondir` that names this same directory, and removes it later.
            Some(common) if !is_own(&common) => {
                Err(RepositoryError::CommonDir(git_dir.join("commondir")))
            }
            _ => Ok(Self { root: root.to_owned(), common_dir: git_dir.clone(), git_dir }),
        }
    }

    /// `.git` is a file that names the git directory.
    fn named(root: &Path, dot_git: PathBuf) -> Result<Self, RepositoryError> {
        let named = line_of(root, ".git", "gitdir: ").map(|named| root.join(named));
        let git_dir = named.and_then(|named| std::fs::canonicalize(named).ok());
        let Some(git_dir) = git_dir.filter(|git_dir| git_dir.is_dir()) else {
            return Err(RepositoryError::NamesNothing(dot_git));
        };
        let common_dir = match line_of(&git_dir, "commondir", "") {
            None => git_dir.clone(),
            Some(common) => {
                let common = std::fs::canonicalize(git_dir.join(common)).ok();
                let is_around =
                    |common: &PathBuf| git_dir.parent() == Some(&common.join("worktrees"));
                let common = common.filter(|common| is_around(common) || *common == git_dir);
                common.ok_or_else(|| RepositoryError::CommonDir(git_dir.join("commondir")))?
            }
        };
        Ok(Self { root: root.to_owned(), git_dir, common_dir })
    }

    /// Checks that the repository itself names this checkout. A `.git` file is part of the workspace: an agent may have
    /// written it, and it may name any of the user's repositories.
    pub fn check_is_own(&self) -> Result<(), RepositoryError> {
        if self.git_dir.starts_with(&self.root) {
            return Ok(());
        }
        let dot_git = self.root.join(".git");
        let back = match line_of(&self.git_dir, "gitdir", "") {
            Some(back) => self.git_dir.join(back),
            None => {
                let config = text_of(&self.git_dir, "config", MOST_CONFIG).unwrap_or_default();
                let worktree = core_worktree(&config).unwrap_or_else(|| ".".to_owned());
                self.git_dir.join(worktree).join(".git")
            }
        };
        let back_root = back.parent().and_then(|root| std::fs::canonicalize(root).ok());
        if back.ends_with(".git") && back_root.as_deref() == Some(&self.root) {
            return Ok(());
        }
        Err(RepositoryError::Foreign { file: dot_git, named: self.git_dir.clone() })
    }

    /// Removes the repository's record of one worktree. Git would also remove the parent directory together with the
    /// last worktree, but a run in the checkout protects that directory.
    pub fn forget_worktree(&self, path: &Path) -> io::Result<()> {
        let worktrees = self.common_dir.join("worktrees");
        let names = match FileTree::open(&worktrees) {
            Ok(tree) => tree.directory(&TreePath::default())?.names()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names {
            let own = worktrees.join(OsStr::from_bytes(&name));
            let back = line_of(&own, "gitdir", "").map(|back| own.join(back));
            if back.as_deref() == Some(&path.join(".git")) {
                std::fs::remove_dir_all(&own)?;
            }
        }
        Ok(())
    }

    /// Returns the repository's directories. None is inside another.
    pub(crate) fn directories(&self) -> Vec<&Path> {
        match self.git_dir.starts_with(&self.common_dir) {
            true => vec![&self.common_dir],
            false => vec![&self.common_dir, &self.git_dir],
        }
    }
}

fn text_of(directory: &Path, name: &str, most: u64) -> Option<String> {
    let tree = FileTree::open(directory).ok()?;
    tree.directory(&TreePath::default()).ok()?.small_text(name.as_bytes(), most)
}

/// Returns the text after `start` in one of git's small files.
fn line_of(directory: &Path, name: &str, start: &str) -> Option<String> {
    let text = text_of(directory, name, MOST_TEXT)?;
    let line = text.strip_prefix(start)?.trim_end_matches(['\n', '\r']);
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns `core.worktree` from a configuration that git itself wrote.
fn core_worktree(config: &str) -> Option<String> {
    let mut is_core = false;
    let mut found = None;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line.eq_ignore_ascii_case("[core]");
        } else if let Some((name, value)) = line.split_once('=')
            && is_core
            && name.trim().eq_ignore_ascii_case("worktree")
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

/// Returns the name of a file type that git must not find.
pub(super) fn in_words(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}
