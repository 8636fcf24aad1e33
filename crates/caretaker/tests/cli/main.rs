//! The binary as a user meets it, as far as no run has to be started for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod commands;
mod commit_journal;
mod exports;
mod runs;
mod scene;
mod stores;
