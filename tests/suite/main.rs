//! The suite across all crates: starts our programs as a user would, and checks rules for the tree as a whole.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot continue has failed, and the suite reads stores as an outsider would"
)]

mod abuse;
mod agents;
mod changes;
mod daemon;
mod formats;
mod resume;
mod runs;
mod sandbox;
mod sessions;
mod shape;
mod snapshots;
mod stage;
mod stream;
