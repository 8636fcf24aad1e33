//! Decides which runs start now, and why the others wait. A pure function of the known state at one moment.
//!
//! ```text
//!   waiting runs ─┐
//!   live runs ────┼─► decide(now) ─► starts · ends (runs that can never start) · a reason for each other run · next look
//!   caps ─────────┤
//!   conditions ───┘
//! ```
//!
//! **Invariant:** the starts exceed no cap, and every run that does not start has a reason.
//!
//! **Invariant:** no run starves. The order of two runs that could both start never changes: it depends on their priority
//! and on how long each has waited. Only finitely many future runs come before a run that waits now.

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
