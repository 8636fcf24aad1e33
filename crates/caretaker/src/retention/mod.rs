//! Which runs may go, why others may not, and their going.
//!
//! ```text
//!   all runs ─► needs (what still needs each) ─┐
//!   criteria (age, number, size) ──────────────┴─► plan (pure) ─► removal, one run at a time:
//!                                                    removal.lock ─► came_since ─► run.lock ─► gone
//! ```
//!
//! The plan is made without a lock and takes its time. `removal.lock` closes the window: `gc` holds it alone over its last
//! look and the removal, and those who come to need a run (a pin, a new run) share it over their own look and what they
//! write. So either `gc` sees the need, or they see that the run is gone.
//!
//! **Invariant:** a run that is live, queued or pinned does not go, nor one that something else still needs.

pub(crate) mod minted;
pub(crate) mod needs;
pub(crate) mod pins;
pub(crate) mod plan;
pub(crate) mod removal;
