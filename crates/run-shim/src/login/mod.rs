//! The user's login: the run's private copy, and the decision whether a change to the copy reaches the user's own file.
//!
//! ```text
//!   copy     <run>/login/inside/auth.json ◄──► the user's auth.json      the agent writes the copy, the shim the user's file
//!   verdict  the agent's copy + the user's login + the time ──► nothing, carry back, or drop with a reason
//!   history  <state>/logins.json: the user's last three logins, for `caretaker login restore`
//! ```
//!
//! **Invariant:** the shim writes the agent's tokens into the user's file only if [`verdict::judge`] allows it, and
//! only after it has saved the user's login.

mod claims;
mod copy;
mod files;
mod history;
mod login_events;
mod verdict;
mod watch;

pub use copy::LoginCopyError;
pub(crate) use copy::{LoginCopy, LoginWatch};
pub use history::{KeptLogin, LoginOrigin, RestoreError, Restored, kept_logins, restore_login};
