//! The user's login: the copy that a run works with, and when a change of it reaches the user's own file.
//!
//! ```text
//!   copy     <run>/login/inside/auth.json ◄──► the user's auth.json      the agent writes the one, we write the other
//!   verdict  what the agent left + what the user has + the time ──► nothing, carry back, or drop and why
//!   kept     <state>/logins.json: the user's last three logins, for `caretaker login restore`
//! ```
//!
//! **Invariant:** nothing of the agent's reaches the user's file unless [`verdict::judge`] says so and the login that it
//! replaces is kept.

mod claims;
mod copy;
mod files;
mod kept;
mod tidings;
mod verdict;
mod watch;

pub use copy::LoginCopyError;
pub(crate) use copy::{LoginCopy, LoginWatch};
pub use kept::{KeptLogin, LoginOrigin, RestoreError, Restored, kept_logins, restore_login};
