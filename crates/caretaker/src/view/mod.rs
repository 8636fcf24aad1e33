//! Turns typed values into text for users.

pub(crate) mod changes;
pub(crate) mod chart;
pub(crate) mod conversation;
pub(crate) mod fact_rows;
pub(crate) mod run;
pub(crate) mod styled_line;
pub(crate) mod table;
pub(crate) mod width;
pub(crate) mod words;
