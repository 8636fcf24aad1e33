//! The lines of a journal: how they are numbered, written, read and found.

pub(crate) mod agent_line;
pub(crate) mod entry;
pub(crate) mod event_number;
pub(crate) mod last_word;
pub(crate) mod line_encoding;
pub(crate) mod line_parsing;
pub(crate) mod line_search;
