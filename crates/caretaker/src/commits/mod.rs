//! Finds the conversations that led to a commit.
//!
//! ```text
//!   git ──► Commit (times, files) ──┐
//!                                   ├──► ranking: a score, and the reason for it
//!   Conversation ──► Evidence ──────┘
//!     touches: which files of the repository it edited, and when
//!   Commit and Conversation ──► Episode: the messages and calls in the time of the commit
//! ```

pub(crate) mod episode;
pub(crate) mod evidence;
pub(crate) mod git;
mod paths;
pub(crate) mod ranking;
