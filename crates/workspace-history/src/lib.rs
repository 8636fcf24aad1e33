//! What a workspace was before a run: saved, compared, put back.
//!
//! ```text
//!   workspace ──walk──► Snapshot (names, modes, links, what holds) ──► a file of ours
//!       ▲                 └─ contents that are new ──fast-import──► a git repository of ours, one commit per snapshot
//!       └──restore────────── contents, from `cat-file --batch`
//! ```
//!
//! git keeps contents and compares them, and nothing more: the walk, the decision what is covered and every change to the
//! workspace are made here, by file descriptors below the workspace that follow no symlink. A person can read what was kept
//! with any git: `git --git-dir=<state>/checkpoints/<workspace>/store.git log --all`.
//!
//! **Invariant:** nothing that the workspace holds decides what program is run. Our repository has its own configuration;
//! in the user's all that could start something is switched off, and git is run there only after a look that found neither
//! links nor special files where git reads and writes.
//!
//! **Invariant:** a directory or file named `.git` is never read into a snapshot, changed or removed, with three exceptions:
//! one that a run made goes when that very run is undone; refs that a run moved or deleted are put back by an undo; and at
//! the end of a run, what it put there that is neither a directory nor a file of its own is removed.
//!
//! **Invariant:** nothing outside the workspace is changed by a restore, whatever links the workspace is full of.
//!
//! **Invariant:** an undo takes back what one run changed, or nothing: what came after the run stays.

mod audit;
mod audit_git;
mod changes;
mod contents;
mod coverage;
mod end_of_run;
mod file_tree;
#[cfg(test)]
mod format_tests;
mod git;
mod history;
mod ignore_rules;
mod import;
mod known_names;
mod merge;
mod repository;
mod restore;
mod saving;
mod snapshot;
#[cfg(test)]
mod test_deeds;
#[cfg(test)]
mod test_tree;
mod tree_path;
mod undo;
mod walk;

pub use audit::{Looked, look_over, repositories_made};
pub use changes::{Change, ChangeKind, compare, count};
pub use contents::ContentReader;
pub use git::{Git, GitAnswer, GitError, SAFE_SETTINGS, run_git};
pub use history::{History, HistoryError, Operation, OperationKind, SnapshotName, forget_the_gone};
pub use merge::{Conflict, MergeError, MergePlan, merge};
pub use repository::{
    RefChange, RefPlan, RefProblem, Refs, RefsKept, RefsRestored, RefsSide, Repository,
    RepositoryError,
};
pub use restore::{RestoreError, Restored, changes_to, restore, restore_with};
pub use saving::{Limits, SaveError, Saved, Scope};
pub use snapshot::{Entry, EntryKind, Head, Snapshot, Stamp};
pub use tree_path::TreePath;
pub use undo::{Reversal, Undo, Unfinished, base_after_undo, standing};
