//! Which conversations led to a commit.
//!
//! ```text
//!   git ──► Commit (times, files) ──┐
//!                                   ├──► ranking: a score, and the reason for it
//!   Conversation ──► Evidence ──────┘
//!     touched_files: what was edited, when, by paths of the repository
//! ```

pub(crate) mod evidence;
pub(crate) mod git;
mod paths;
pub(crate) mod ranking;
