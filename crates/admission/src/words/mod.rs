//! Text for users: safe text, sizes, durations, notes on stderr.

pub mod safe_text;
pub mod talk;
pub mod units;
