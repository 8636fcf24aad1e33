//! The daemon: one process per state directory that schedules runs, tells how they stand, and can be killed at any time.
//!
//! ```text
//!   caretaker run ─┐                       ┌─► starting ─► `caretaker shim`, a process and session of its own
//!   HTTP client ───┼─► api ─► queue ─► schedule (pure)
//!   the files ─────┘           ▲
//!   run_watch (inotify, pidfd) ┼──► postman ─► messages, as the next turn of sessions that are not at work
//!                              └──► mailboxes ─► event streams, each reading the journal from its own place
//! ```
//!
//! **Invariant:** it owns no pipe and no journal. A queued run is a directory whose journal says so; what is in memory
//! can be found out again from the files, except keys, which are on no disk on purpose.
//!
//! **Invariant:** nothing is polled: it wakes when something happens, or when a deadline is due that somebody waits for.
//!
//! **Invariant:** nothing starts twice. The supervisor claims a run under the run's lock; here it is only asked to.
//!
//! **Invariant:** it reads no environment: the binary passes a `Host` and a [`DaemonConfig`] in at its start.

mod api;
mod clock;
mod command_errors;
mod config;
mod connections;
mod counters;
mod daemon;
mod delivery;
#[cfg(test)]
mod format_tests;
mod hooks;
mod inotify;
mod instance;
mod ledger;
mod letters;
mod lobby;
mod lock_holder;
mod mailbox;
mod pollable;
mod postman;
mod queue;
mod queue_file;
mod run_watch;
mod schedule;
mod serve;
mod starting;
mod systemd;
mod why;

pub use config::{DaemonConfig, PROTOCOL};
pub use delivery::Delivery;
pub use hooks::{Claimer, HookOutcome, HookRecord, HookStanding, records_of};
pub use instance::{DaemonNote, Presence, Stopped, lock_path, presence, stop};
pub use letters::{
    Left, LetterError, OpenLetters, OpenQuestion, WaitingMessage, answer_question, answer_run,
    leave_message, open_letters, turn_prompt,
};
pub use queue_file::QueueGate;
pub use schedule::{Batch, BatchRun, Turn, Waiting};
pub use serve::{ServeError, serve, token_path};
pub use why::{QueueWord, why};
