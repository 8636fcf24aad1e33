//! Runs from start to end: groups, budgets, limits, records, and every way to die.

mod before_release;
mod budgets;
mod damaged_records;
mod ends;
mod full_disk;
mod groups;
pub(crate) mod limits;
mod loops;
mod record_limits;
mod retention;
mod stale_runs;
mod start_to_end;
mod stopping;
pub(crate) mod trial;
