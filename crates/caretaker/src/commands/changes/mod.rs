//! Commands that show, take over or take back what a run changed in its workspace.

pub(crate) mod apply;
pub(crate) mod diff;
pub(crate) mod discard;
pub(crate) mod undo;
