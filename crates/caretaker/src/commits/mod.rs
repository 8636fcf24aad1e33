//! Finds the conversations that led to a commit.
//!
//! ```text
//!   git ──► Commit (times, files) ──┐
//!                                   ├──► ranking: a score, and the reason for it
//!   Conversation ──► Evidence ──────┘
//!     touches: the repository's files that it edited, and when
//!   Commit and Conversation ──► Episode: the messages and calls in the commit's window
//! ```

pub(crate) mod episode;
pub(crate) mod evidence;
pub(crate) mod git;
mod paths;
pub(crate) mod ranking;
