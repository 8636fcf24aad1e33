//! The text of the answer.

pub(crate) mod hindsight;
pub(crate) mod text_reducer;
