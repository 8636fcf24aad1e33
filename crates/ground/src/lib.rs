//! Small helpers for files, time, errors and host commands that every other crate may use.
//!
//! | question | answer |
//! |---|---|
//! | What time is it? | [`now_ms`] |
//! | What does an error say, with its causes, on one line? | [`with_causes`] |
//! | How to replace a file so that no reader sees half of it? | [`replace_file`], [`replace_with`], [`create_if_missing`] |
//! | How to open a file that another process may replace with a FIFO or a link? | [`plain_file`] |
//! | How to make a directory that only its owner can enter? | [`make_private_dir`] |
//! | How to notice that a file has changed? | [`inotify`] |
//! | How to run a program that must end? | [`command`] |
//! | How to lock a mutex even if another thread panicked? | [`lock`] |
//! | How to read JSON with half a surrogate pair? | [`surrogates`] |
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
