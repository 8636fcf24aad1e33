//! Views of changed files and commits.

pub(crate) mod audit_view;
pub(crate) mod change_view;
pub(crate) mod commit_view;
pub(crate) mod diff_view;
