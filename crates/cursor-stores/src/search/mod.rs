//! Finds a pattern in the records of stores. Records that cannot match are not decoded.

pub(crate) mod index;
mod json_fields;
mod matcher;
mod report;
mod required_literals;
mod snippet;
pub(crate) mod trigrams;

pub(crate) use json_fields::search_value;
pub use json_fields::{FieldMatch, search_bytes, search_json, search_text};
pub use matcher::{Case, Matcher, Pattern, PatternError};
pub(crate) use report::Search;
pub use snippet::Snippet;
