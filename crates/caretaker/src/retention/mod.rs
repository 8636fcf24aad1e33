//! Which runs may go, why others may not, and their going.
//!
//! ```text
//!   all runs ─► needs (what still needs each) ─┐
//!   criteria (age, number, size) ──────────────┴─► plan (pure) ─► removal, under the run's lock
//! ```
//!
//! **Invariant:** a run that is live, queued or pinned does not go, nor one that something else still needs.

pub(crate) mod minted;
pub(crate) mod needs;
pub(crate) mod pins;
pub(crate) mod plan;
pub(crate) mod removal;
