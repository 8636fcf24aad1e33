//! Can a session be resumed, does it continue an earlier state, and is its store complete?

#[cfg(test)]
mod agreement_tests;
pub(crate) mod ancestry;
pub(crate) mod finding;
pub(crate) mod furthest;
pub(crate) mod integrity;
pub(crate) mod resumability;
pub(crate) mod root_pointer;
