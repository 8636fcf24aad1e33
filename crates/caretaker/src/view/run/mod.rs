//! Views of a run: its events while it is live, and its report afterwards.

pub(crate) mod network_sum;
pub(crate) mod network_words;
pub(crate) mod run_view;
pub(crate) mod show_view;
pub(crate) mod stream_view;
pub(crate) mod summary_view;
mod tool_line;
