//! Checks a store, repairs it, and removes blobs that nothing refers to.

pub(crate) mod gc;
pub(crate) mod repair;
pub(crate) mod replace;
pub(crate) mod root_candidates;
pub(crate) mod verify;
