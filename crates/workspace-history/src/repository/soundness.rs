//! Checks a repository before git runs there: git follows links when it writes refs and logs, and waits forever at a
//! FIFO.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::finding::{Repository, RepositoryError, in_words};
use crate::file_tree::{FileTree, OpenDirectory};
use crate::tree_path::TreePath;

/// No repository takes this long, unless an agent slows the check down on purpose.
const LONGEST: Duration = Duration::from_secs(20);

/// The directories of a repository that git reads or writes when Caretaker runs it, and Git LFS's directory. The others
/// hold sockets and links of other tools (`annex`, `svn`), hooks, which Caretaker switches off, and submodule
/// repositories, which git must not enter.
const USED: [&[u8]; 7] = [b"refs", b"logs", b"objects", b"info", b"worktrees", b"reftable", b"lfs"];

/// Returns true for names where links are common and git does not follow them. A ref's name never starts with a dot.
fn is_outside_git(name: &[u8]) -> bool {
    name.starts_with(b".") || matches!(name, b"hooks" | b"description" | b"fsmonitor--daemon.ipc")
}

impl Repository {
    /// Makes sure that git finds only readable regular files and directories here.
    pub fn check(&self) -> Result<(), RepositoryError> {
        let until = Instant::now() + LONGEST;
        for directory in self.directories() {
            let mut unsound = None;
            let outcome = walk(directory, until, Closed::Refuse, &mut |_, path, file_type| {
                let mut names = path.names();
                let (first, is_top) = (names.next().unwrap_or_default(), names.next().is_none());
                match file_type {
                    FileType::Directory if is_top && !USED.contains(&first) => Visit::Pass,
                    FileType::Directory | FileType::RegularFile => Visit::GoOn,
                    _ if is_top && is_outside_git(first) => Visit::GoOn,
                    other => {
                        unsound = Some((path.clone(), in_words(other)));
                        Visit::Stop
                    }
                }
            });
            if let Some((path, what)) = unsound {
                let path = directory.join(path.as_path());
                return Err(RepositoryError::Unsound { path, what });
            }
            outcome?;
        }
        Ok(())
    }
}

/// The next step after a file.
pub(super) enum Visit {
    GoOn,
    Pass,
    Stop,
}

/// How to treat a directory that cannot be listed or entered. Git can still open names in it that it knows.
pub(super) enum Closed<'a> {
    Refuse,
    /// Make it readable, if the caller owns it, and continue.
    OpenUp(&'a mut OpenedUp),
}

#[derive(Debug, Default)]
pub(super) struct OpenedUp {
    pub(super) directories: Vec<TreePath>,
    /// Why a directory is still unreadable.
    pub(super) problem: Option<RepositoryError>,
}

/// The kernel does not accept a longer path, so git cannot open anything below this.
const LONGEST_PATH: usize = 4096;

/// Returns the rank of a directory; low ranks are checked first. An agent can fill one directory with so many files
/// that no time is left for the others.
fn rank(path: &TreePath) -> usize {
    match path.names().next().unwrap_or_default() {
        b"refs" | b"logs" | b"info" | b"worktrees" | b"reftable" => 0,
        b"objects" | b"lfs" | b"modules" => 1,
        _ => 2,
    }
}

/// Walks a whole git directory without following links. Starts with the directories that git uses most, and within each
/// with the shallowest subdirectories.
pub(super) fn walk(
    git_dir: &Path,
    until: Instant,
    mut closed: Closed<'_>,
    visit: &mut dyn FnMut(&OpenDirectory, &TreePath, FileType) -> Visit,
) -> Result<(), RepositoryError> {
    let read = |source| RepositoryError::Read { path: git_dir.to_owned(), source };
    let tree = FileTree::open(git_dir).map_err(read)?;
    let mut pending: [VecDeque<TreePath>; 3] = Default::default();
    pending[0].push_back(TreePath::default());
    while let Some(at) = pending.iter_mut().find_map(VecDeque::pop_front) {
        let Some(directory) = enter(&tree, &at, &mut closed)? else { continue };
        let flow = directory.each_entry(|name, file_type| {
            let path = at.join(name);
            match visit(&directory, &path, file_type) {
                Visit::Stop => return ControlFlow::Break(()),
                Visit::GoOn
                    if file_type == FileType::Directory && path.as_bytes().len() < LONGEST_PATH =>
                {
                    pending[rank(&path)].push_back(path);
                }
                Visit::GoOn | Visit::Pass => {}
            }
            ControlFlow::Continue(())
        });
        if flow.map_err(read)?.is_break() {
            break;
        }
        if Instant::now() > until && pending.iter().any(|places| !places.is_empty()) {
            return Err(RepositoryError::TooMuch(git_dir.to_owned()));
        }
    }
    Ok(())
}

/// Opens a directory for listing. Returns `None` if it is gone, or if it stays unreadable and the walk may continue.
fn enter(
    tree: &FileTree,
    at: &TreePath,
    closed: &mut Closed<'_>,
) -> Result<Option<OpenDirectory>, RepositoryError> {
    let errno = match tree.enter(at) {
        Ok(directory) => return Ok(Some(directory)),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => errno,
    };
    let path = tree.path().join(at.as_path());
    let opened = match closed {
        Closed::Refuse => {
            let what = "a directory that cannot be read";
            return Err(RepositoryError::Unsound { path, what });
        }
        Closed::OpenUp(opened) => opened,
    };
    let open_up = || match at.parent() {
        Some(parent) if errno == Errno::ACCESS => {
            tree.directory(&parent)?.open_up(at.name())?;
            Ok(tree.enter(at)?)
        }
        _ => Err(std::io::Error::from(errno)),
    };
    match open_up() {
        Ok(directory) => {
            opened.directories.push(at.clone());
            Ok(Some(directory))
        }
        Err(source) => {
            opened.problem = Some(RepositoryError::Read { path, source });
            Ok(None)
        }
    }
}
