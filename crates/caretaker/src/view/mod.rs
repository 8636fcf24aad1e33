//! Typed values as something to read.

pub(crate) mod agent_lines;
mod audit_view;
pub(crate) mod change_view;
pub(crate) mod chart;
pub(crate) mod commit_view;
pub(crate) mod conversation;
pub(crate) mod diff_view;
pub(crate) mod network_sum;
pub(crate) mod network_words;
pub(crate) mod run_view;
pub(crate) mod show_view;
pub(crate) mod stats_view;
pub(crate) mod stream_view;
pub(crate) mod styled_line;
pub(crate) mod summary_view;
pub(crate) mod table;
mod tool_line;
pub(crate) mod width;
pub(crate) mod words;
