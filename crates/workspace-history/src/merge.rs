//! Brings what changed in one workspace into another that began as the same: file by file, and line by line where both
//! changed. Decides everything before anything is touched.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::changes::{Change, compare};
use crate::git::{GitError, run_git};
use crate::history::{History, HistoryError};
use crate::snapshot::{Entry, EntryKind, Snapshot, Stamp};
use crate::tree_path::TreePath;

/// Longer than any file takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bits that make a program.
const EXECUTABLE: u32 = 0o111;

/// What the other workspace shall become.
#[derive(Debug)]
pub struct Merged {
    pub target: Snapshot,
    /// Changed on both sides, in different places.
    pub merged: Vec<TreePath>,
    /// Nothing may be changed where there are any.
    pub conflicts: Vec<Conflict>,
}

/// What cannot be decided for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: TreePath,
    pub why: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    #[error("`{}` cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// From `base` to `theirs` is what changed, kept in `worktree`; `ours` is what it is brought into, kept in `checkout`.
pub fn merge(
    worktree: &History,
    checkout: &History,
    base: &Snapshot,
    theirs: &Snapshot,
    ours: &Snapshot,
) -> Result<Merged, MergeError> {
    let mut work = Work {
        worktree,
        checkout,
        theirs,
        ours: &ours.entries,
        target: ours.entries.clone(),
        merged: Vec::new(),
        conflicts: Vec::new(),
    };
    let changes = compare(base, theirs);
    // Directories that go are looked at last and from within: something of the user's may stay in them.
    for change in changes.iter().filter(|change| !removes_directory(change)) {
        work.decide(change)?;
    }
    for change in changes.iter().rev().filter(|change| removes_directory(change)) {
        if !has_children(&work.target, change.path) {
            work.target.remove(change.path);
        }
    }
    work.look_for_nonsense();
    let Work { target, merged, mut conflicts, .. } = work;
    conflicts.sort_by(|one, other| one.path.cmp(&other.path));
    conflicts.dedup();
    let target = Snapshot { commit: None, entries: target, ..ours.clone() };
    Ok(Merged { target, merged, conflicts })
}

struct Work<'a> {
    worktree: &'a History,
    checkout: &'a History,
    theirs: &'a Snapshot,
    ours: &'a BTreeMap<TreePath, Entry>,
    target: BTreeMap<TreePath, Entry>,
    merged: Vec<TreePath>,
    conflicts: Vec<Conflict>,
}

impl Work<'_> {
    fn conflict(&mut self, path: &TreePath, why: &'static str) {
        self.conflicts.push(Conflict { path: path.clone(), why });
    }

    fn decide(&mut self, change: &Change<'_>) -> Result<(), MergeError> {
        let path = change.path;
        let ours = self.ours.get(path);
        if is_same(ours, change.to) {
            return Ok(());
        }
        if is_same(ours, change.from) {
            match change.to {
                None => {
                    self.target.remove(path);
                }
                Some(to) => self.take(path, to, ours),
            }
            return Ok(());
        }
        match (change.from, ours, change.to) {
            (_, _, None) => self.conflict(path, "removed in the worktree, changed in the checkout"),
            (Some(_), None, Some(_)) => {
                self.conflict(path, "changed in the worktree, removed in the checkout");
            }
            (None, Some(_), Some(_)) => self.conflict(path, "added in both, and not the same"),
            (Some(from), Some(ours), Some(to)) => {
                let (EntryKind::File { id: base, .. }, EntryKind::File { id: mine, .. }) =
                    (&from.kind, &ours.kind)
                else {
                    self.conflict(path, "changed in both");
                    return Ok(());
                };
                let EntryKind::File { id: theirs, .. } = &to.kind else {
                    self.conflict(path, "changed in both");
                    return Ok(());
                };
                match self.merge_lines(mine, base, theirs)? {
                    Some((id, size)) => {
                        let kind = EntryKind::File { size, id };
                        let is_turned = (from.mode ^ to.mode) & EXECUTABLE != 0;
                        let mode =
                            if is_turned { with_bits_of(ours.mode, to.mode) } else { ours.mode };
                        let entry = Entry { kind, mode, stamp: Stamp::default() };
                        self.target.insert(path.clone(), entry);
                        self.merged.push(path.clone());
                    }
                    None => self.conflict(path, "changed in both, in the same lines"),
                }
            }
            (None, None, Some(_)) => {}
        }
        Ok(())
    }

    /// Takes what the worktree has, and the directories that it is in.
    fn take(&mut self, path: &TreePath, to: &Entry, ours: Option<&Entry>) {
        let mode = match ours {
            Some(ours) if ours.is_directory() == to.is_directory() => {
                with_bits_of(ours.mode, to.mode)
            }
            _ => to.mode,
        };
        self.target.insert(path.clone(), Entry { mode, ..to.clone() });
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|directory| !directory.as_bytes().is_empty()) {
            if !self.target.contains_key(&directory)
                && let Some(entry) = self.theirs.entries.get(&directory)
            {
                self.target.insert(directory.clone(), entry.clone());
            }
            parent = directory.parent();
        }
    }

    /// Both sides' lines in one, and how long that is; `None` where they stand against each other.
    fn merge_lines(
        &self,
        ours: &str,
        base: &str,
        theirs: &str,
    ) -> Result<Option<(String, u64)>, MergeError> {
        let place = self.worktree.directory.join(format!("merging-{}", std::process::id()));
        let merged = self.merge_lines_in(&place, [ours, base, theirs]);
        fs::remove_dir_all(&place).ok();
        merged
    }

    fn merge_lines_in(
        &self,
        place: &Path,
        ids: [&str; 3],
    ) -> Result<Option<(String, u64)>, MergeError> {
        let failed = |source| MergeError::Io { path: place.to_owned(), source };
        fs::create_dir_all(place).map_err(failed)?;
        let mut contents = self.worktree.contents_and(self.checkout)?;
        contents.ask_for(ids.map(ToOwned::to_owned));
        let names = ["checkout", "base", "worktree"];
        for (id, name) in ids.into_iter().zip(names) {
            let mut file = fs::File::create(place.join(name)).map_err(failed)?;
            contents.next(id, &mut file).map_err(failed)?;
        }
        let store = self.worktree.store();
        let mut command = self.worktree.git.command_for_store(&store);
        command.args(["merge-file", "--quiet", "-p"]).args(names).current_dir(place);
        let answer = run_git(&mut command, None, PATIENCE)?;
        // Otherwise the number of conflicts, or that it is no text.
        if !answer.status.success() {
            return Ok(None);
        }
        let size = answer.stdout.len() as u64;
        let mut command = self.worktree.git.command_for_store(&store);
        command.args(["hash-object", "-w", "--stdin"]);
        let id = run_git(&mut command, Some(answer.stdout), PATIENCE)?.checked()?;
        Ok(Some((String::from_utf8_lossy(&id).trim().to_owned(), size)))
    }

    /// A file cannot have something in it.
    fn look_for_nonsense(&mut self) {
        let mut odd = Vec::new();
        for path in self.target.keys() {
            let parent = path.parent().unwrap_or_default();
            if self.target.get(&parent).is_some_and(|entry| !entry.is_directory()) {
                odd.push(path.clone());
            }
        }
        for path in odd {
            self.conflict(&path, "its directory is a file now");
        }
    }
}

fn removes_directory(change: &Change<'_>) -> bool {
    change.to.is_none() && change.from.is_some_and(Entry::is_directory)
}

fn has_children(entries: &BTreeMap<TreePath, Entry>, directory: &TreePath) -> bool {
    let next = entries.range(directory.join(b"")..).next();
    next.is_some_and(|(path, _)| path.is_within(directory) && path != directory)
}

fn with_bits_of(mode: u32, other: u32) -> u32 {
    // Who may read may execute, where anybody may.
    let wanted = if other & EXECUTABLE == 0 { 0 } else { (mode & 0o444) >> 2 };
    mode & !EXECUTABLE | wanted
}

/// Whether both are the same for git: modes differ from checkout to checkout.
fn is_same(one: Option<&Entry>, other: Option<&Entry>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => match (&one.kind, &other.kind) {
            (EntryKind::File { id: first, .. }, EntryKind::File { id: second, .. }) => {
                first == second && (one.mode & 0o100) == (other.mode & 0o100)
            }
            (first, second) => first == second,
        },
        _ => false,
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
