//! The conversation that a run works on: who may write to it, where it is, and its state before and after the run.

pub(crate) mod checkpoint;
#[cfg(test)]
mod format_tests;
pub(crate) mod held_lock;
pub(crate) mod lease_watch;
pub(crate) mod locks;
pub(crate) mod minted_session;
pub(crate) mod session_bucket;
pub(crate) mod session_memory;
pub(crate) mod session_places;
pub(crate) mod session_record;
mod write_lease;
