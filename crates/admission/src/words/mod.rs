//! How we write for people: text made safe, sizes, durations, notes on stderr.

pub mod byte_size;
pub mod human_duration;
pub mod safe_text;
pub mod talk;
pub mod units;
