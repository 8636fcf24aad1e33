//! The history of a workspace: saves it before a run, compares it, and restores it.
//!
//! ```text
//!   workspace ──walk──► Snapshot (names, modes, links, ignore rules) ──► a file in our state directory
//!       ▲                 └─ new contents ──fast-import──► our own git repository, one commit per snapshot
//!       └──restore────────── contents, from `cat-file --batch`
//! ```
//!
//! Git only keeps and compares contents. This crate walks the workspace, decides what to cover, and makes every change
//! itself, through file descriptors that follow no symlink. Users can read the contents with any git: `git
//! --git-dir=<state>/checkpoints/<workspace>/store.git log --all`.
//!
//! **Invariant:** nothing in the workspace decides which program runs. Our repository has its own configuration. In the
//! user's repository we switch off every setting that could start a program, and run git only after a check that found
//! neither links nor special files where git reads and writes.
//!
//! **Invariant:** a directory or file named `.git` is never saved, changed or removed, with three exceptions: undoing a
//! run removes a `.git` that this run made; an undo restores refs that the run moved or deleted; and the end of a run
//! removes links, special files and hard links that the run put there.
//!
//! **Invariant:** a restore changes nothing outside the workspace, even if the workspace contains links.
//!
//! **Invariant:** an undo reverts the changes of one run, or nothing. Later changes stay.

mod audit;
mod copying;
mod end_of_run;
mod file_tree;
#[cfg(test)]
mod format_tests;
mod git;
mod history;
mod merge;
mod repository;
mod restore;
mod snapshot;
#[cfg(test)]
mod test_deeds;
#[cfg(test)]
mod test_tree;
mod tree_path;
mod undo;
mod walk;

pub use audit::{Looked, look_over, repositories_made};
pub use copying::copy_files;
pub use git::contents::ContentReader;
pub use git::{Git, GitAnswer, GitError, SAFE_SETTINGS, run_git};
pub use history::{History, HistoryError, Operation, OperationKind, SnapshotName, forget_the_gone};
pub use merge::{Conflict, MergeError, MergePlan, merge};
pub use repository::{
    RefChange, RefPlan, RefProblem, Refs, RefsKept, RefsRestored, RefsSide, Repository,
    RepositoryError,
};
pub use restore::{RestoreError, Restored, changes_to, restore, restore_with};
pub use snapshot::changes::{Change, ChangeKind, compare, count};
pub use snapshot::saving::{Limits, SaveError, Saved, Scope};
pub use snapshot::{Entry, EntryKind, Head, Snapshot, Stamp};
pub use tree_path::TreePath;
pub use undo::{Reversal, Undo, Unfinished, base_after_undo, standing};
