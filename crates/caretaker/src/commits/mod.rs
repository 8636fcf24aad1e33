//! Which conversations led to a commit.
//!
//! ```text
//!   git ──► Commit (times, files) ──┐
//!                                   ├──► ranking: a score, and the reason for it
//!   Conversation ──► Evidence ──────┘
//!     touched_files: what was edited, when, by paths of the repository
//!   Commit and Conversation ──► Episode: what was said and done in the time of the commit
//! ```

pub(crate) mod episode;
pub(crate) mod evidence;
pub(crate) mod git;
mod paths;
pub(crate) mod ranking;
