//! The daemon: one process per state directory. It schedules runs, reports their state, and can be killed at any time.
//!
//! ```text
//!   caretaker run ─┐                       ┌─► queue::start ─► `caretaker shim`, its own process and session
//!   HTTP client ───┼─► api ─► queue ─► schedule (pure)
//!   the files ─────┘           ▲
//!   run_watch (inotify, pidfd) ┼──► messages ─► delivery as the next turn of sessions whose agent is not running
//!                              └──► subscribers ─► event streams, each reads the journal from its own position
//! ```
//!
//! **Invariant:** the daemon owns no pipe and no journal. A queued run is a directory whose journal says so. The daemon
//! can rebuild its memory from files, except for keys, which are never on disk.
//!
//! **Invariant:** the daemon does not poll. It wakes when something happens, or when a deadline passes.
//!
//! **Invariant:** no run starts twice. The shim claims a run under the run's lock; the daemon only starts the shim.
//!
//! **Invariant:** the daemon reads no environment: the binary passes a `Host` and a [`DaemonConfig`].

mod api;
mod clock;
mod command_errors;
mod config;
mod counters;
mod daemon;
#[cfg(test)]
mod format_tests;
mod hooks;
mod messages;
mod queue;
mod run_watch;
mod schedule;
mod server;

pub use config::{DaemonConfig, PROTOCOL};
pub use hooks::{Claimer, HookOutcome, HookRecord, HookStanding, records_of};
pub use messages::delivery::Delivery;
pub use messages::{
    MessageError, OpenInboxes, OpenQuestion, PostedMessage, WaitingMessage, answer_question,
    answer_run, open_inboxes, post_message, turn_prompt,
};
pub use queue::queue_file::QueueGate;
pub use queue::why::{QueueWord, why};
pub use schedule::{Batch, BatchRun, Turn, Waiting};
pub use server::instance::{DaemonNote, Presence, Stopped, lock_path, presence, stop};
pub use server::serve::{ServeError, serve, token_path};
