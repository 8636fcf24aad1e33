//! Small helpers for files, time, errors and host commands that every other crate may use.
//!
//! | question | answer |
//! |---|---|
//! | What time is it? | [`now_ms`] |
//! | What does an error say, with its causes, on one line? | [`with_causes`] |
//! | How do I replace a file so that no reader sees half of it? | [`replace_file`], [`replace_with`], [`create_if_missing`] |
//! | How do I open a file that another process may replace with a FIFO or a link? | [`plain_file`] |
//! | How do I make a directory that only its owner can enter? | [`make_private_dir`] |
//! | How do I notice that a file has changed? | [`inotify`] |
//! | How do I run a program that must end? | [`command`] |
//! | How do I lock a mutex even if another thread panicked? | [`lock`] |
//! | How do I read JSON with half a surrogate pair? | [`surrogates`] |
//!
//! **Invariant:** nothing here knows what a run, a session or a store is.

mod clock;
pub mod command;
mod error_text;
pub mod inotify;
mod mutex;
pub mod plain_file;
mod private;
mod replacing;
pub mod surrogates;

pub use clock::now_ms;
pub use error_text::with_causes;
pub use mutex::lock;
pub use private::make_private_dir;
pub use replacing::{Durable, create_if_missing, remove_dead_drafts, replace_file, replace_with};
