//! What is called over is over, and what died is cleaned up after: kills and stops at named moments.

mod drained;
mod early_death;
mod half_made;
mod litter;
mod lost_keeper;
mod process;
mod random_kills;
mod stand_in;
mod stopped_shim;
