//! Kills and stops at chosen moments: a run that is over leaves no process, and the next command cleans up after a dead one.

mod drained;
mod early_death;
mod half_made;
mod litter;
mod lost_keeper;
mod process;
mod random_kills;
mod stand_in;
mod stopped_shim;
