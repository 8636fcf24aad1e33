//! Who may start now, and what everybody else waits for: a pure decision over what is known at one moment.
//!
//! ```text
//!   waiting runs ─┐
//!   live runs ────┼─► decide(now) ─► starts · ends (what can never start) · a reason for each of the others · next look
//!   caps ─────────┤
//!   conditions ───┘
//! ```
//!
//! **Invariant:** with what it starts, no cap is exceeded; and whoever is not started has a reason.
//!
//! **Invariant:** nobody starves: of two runs that could both start, the order is settled once, by priority and by how
//! long each has waited, and only finitely many runs of the future come before one that waits now.

mod batch;
mod decide;
mod rate_limit;
mod waiting;

pub use batch::{Batch, BatchRun, Turn};
pub(crate) use decide::{
    Conditions, Decision, Dependency, DiskRoom, Gate, Hold, Share, SpentBudgets, WaitingRun, decide,
};
pub(crate) use rate_limit::Lowered;
pub use waiting::Waiting;
