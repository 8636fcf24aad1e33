//! The workspace after a run: undo, worktrees, and repositories that an agent tampered with.

mod git_settings;
mod hostile_repository;
mod undo;
mod worktrees;
