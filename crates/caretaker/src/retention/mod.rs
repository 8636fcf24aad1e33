//! Decides which runs `gc` removes and why others stay, and removes them.
//!
//! ```text
//!   all runs ─► needs (is each still needed?) ─┐
//!   criteria (age, number, size) ──────────────┴─► plan (pure) ─► removal, one run at a time:
//!                                                    removal.lock ─► came_since ─► run.lock ─► gone
//! ```
//!
//! The plan takes time and holds no lock. `removal.lock` closes the window: `gc` holds it exclusively while it checks
//! again and removes the run. A pin or a new run shares the lock while it checks and writes. So either `gc` sees that
//! the run is needed, or the other process sees that it is gone.
//!
//! **Invariant:** a live, queued or pinned run stays, and so does a run that something still needs.

pub(crate) mod minted;
pub(crate) mod needs;
pub(crate) mod pins;
pub(crate) mod plan;
pub(crate) mod removal;
