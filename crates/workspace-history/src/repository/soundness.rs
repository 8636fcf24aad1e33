//! Looks through a repository before git is run there: git follows links when it writes refs and logs, and waits at a FIFO
//! for ever.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use super::finding::{Repository, RepositoryError, in_words};
use crate::file_tree::{FileTree, OpenDirectory};
use crate::tree_path::TreePath;

/// Longer than any repository takes that is not made to take long.
const LONGEST: Duration = Duration::from_secs(20);

/// The directories of a repository that git reads from or writes to when we run it, and Git LFS where the user has it.
/// Others hold the sockets and links of other tools (`annex`, `svn`), hooks, which we switch off, and the repositories of
/// submodules, which we have git not enter.
const USED: [&[u8]; 7] = [b"refs", b"logs", b"objects", b"info", b"worktrees", b"reftable", b"lfs"];

/// Where links are usual and git is not led by them. A name that begins with a dot is never that of a ref.
fn is_nobodys(name: &[u8]) -> bool {
    name.starts_with(b".") || matches!(name, b"hooks" | b"description" | b"fsmonitor--daemon.ipc")
}

impl Repository {
    /// Makes sure that git finds nothing but directories and regular files here.
    pub fn check(&self) -> Result<(), RepositoryError> {
        let until = Instant::now() + LONGEST;
        for directory in self.directories() {
            let mut unsound = None;
            let outcome = walk(directory, until, &mut |_, path, file_type| {
                let mut names = path.names();
                let (first, is_top) = (names.next().unwrap_or_default(), names.next().is_none());
                match file_type {
                    FileType::Directory if is_top && !USED.contains(&first) => Visit::Pass,
                    FileType::Directory | FileType::RegularFile => Visit::GoOn,
                    _ if is_top && is_nobodys(first) => Visit::GoOn,
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

/// What to do after something was seen.
pub(super) enum Visit {
    GoOn,
    /// Do not enter it.
    Pass,
    Stop,
}

/// Goes through all of a git directory, without following a link.
pub(super) fn walk(
    git_dir: &Path,
    until: Instant,
    visit: &mut dyn FnMut(&OpenDirectory, &TreePath, FileType) -> Visit,
) -> Result<(), RepositoryError> {
    let read = |source| RepositoryError::Read { path: git_dir.to_owned(), source };
    let tree = FileTree::open(git_dir).map_err(read)?;
    let mut pending = vec![TreePath::default()];
    while let Some(at) = pending.pop() {
        if Instant::now() > until {
            return Err(RepositoryError::TooMuch(git_dir.to_owned()));
        }
        // Gone since its name was read, or nothing that we may enter: then git may not either.
        let Ok(directory) = tree.directory(&at) else { continue };
        let flow = directory.each_entry(|name, file_type| {
            let path = at.join(name);
            match visit(&directory, &path, file_type) {
                Visit::Stop => return ControlFlow::Break(()),
                Visit::GoOn if file_type == FileType::Directory => pending.push(path),
                Visit::GoOn | Visit::Pass => {}
            }
            ControlFlow::Continue(())
        });
        if flow.map_err(read)?.is_break() {
            break;
        }
    }
    Ok(())
}
