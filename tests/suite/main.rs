//! The cross-crate suite: our programs, started as a user would start them, and what must hold for the tree as a whole.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and the suite reads stores as a stranger would"
)]

mod abuse;
mod agent_family;
mod agent_inbox;
mod batch;
mod before_release;
mod browser;
mod budgets;
mod bundled_paths;
mod captures;
mod conversations;
mod daemon;
mod daemon_door;
mod daemon_places;
mod daemon_queue;
mod daemon_stage;
mod damaged_records;
mod damaged_stores;
mod ends;
mod export_page;
mod flipped_bits;
mod follow_all;
mod formats;
mod full_disk;
mod homes_of_others;
mod hooks;
mod hostile_repository;
mod ide_records;
mod inheritance;
mod key_sets;
mod limits;
mod login;
mod mcp;
mod minted_sessions;
mod model_names;
mod named_secrets;
mod namespace;
mod network;
mod no_sandbox;
mod one_conversation;
mod parse_command;
mod programs;
mod raw_records;
mod record_limits;
mod repository;
mod resume;
mod resume_crashes;
mod resume_matrix;
mod retention;
mod root_caller;
mod runs;
mod sandbox_off;
mod sdk_stores;
mod secrets;
mod session_copies;
mod session_siblings;
mod session_stores;
mod session_storm;
mod shape;
mod simulated;
mod snapshots;
mod stage;
mod stale_runs;
mod strict;
mod undo;
mod worktrees;
