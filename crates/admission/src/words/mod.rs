//! How we write for people: text made safe, sizes, durations, notes on stderr.

pub mod safe_text;
pub mod talk;
pub mod units;
