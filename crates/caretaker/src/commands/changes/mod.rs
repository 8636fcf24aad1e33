//! Commands that show, apply or undo what a run changed in its workspace.

pub(crate) mod apply;
pub(crate) mod diff;
pub(crate) mod discard;
pub(crate) mod undo;
