//! Lines of the stream: splitting and parsing them.

pub(crate) mod lenient;
pub(crate) mod line_parser;
pub(crate) mod line_splitter;
pub(crate) mod oversized;
pub(crate) mod token_line;
