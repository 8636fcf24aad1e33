//! The binary as a user sees it: all tests that need no running agent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod commands;
mod commit_journal;
mod exports;
mod runs;
mod scene;
mod stores;
