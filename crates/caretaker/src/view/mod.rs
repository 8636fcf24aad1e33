//! Typed values as something to read.

pub(crate) mod safe_text;
pub(crate) mod stream_view;
pub(crate) mod summary_view;
mod tool_line;
mod units;
