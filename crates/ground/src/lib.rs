//! Small helpers for files, time, errors and commands of the host. Each is written once, and every other crate may use it.
//!
//! | question | answer |
//! |---|---|
//! | What time is it? | [`now_ms`] |
//! | What does an error say, with its causes, on one line? | [`with_causes`] |
//! | How is a file replaced so that no reader sees half of it? | [`replace_file`], [`replace_with`] |
//! | How is a file opened that another process may replace by a FIFO or a link? | [`plain_file`] |
//! | How is a directory made that only its owner can enter? | [`make_private_dir`] |
//! | How do we learn that a file has changed? | [`inotify`] |
//! | How is a program run that must end? | [`command`] |
//! | How is a mutex locked, whatever happened in other threads? | [`lock`] |
//! | How is JSON read that holds half a surrogate pair? | [`surrogates`] |
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
pub use replacing::{Durable, remove_dead_drafts, replace_file, replace_with};
