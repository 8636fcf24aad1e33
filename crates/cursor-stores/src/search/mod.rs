//! Finding a pattern in what stores keep, without an index and without decoding what cannot match.

mod json_fields;
mod matcher;
mod required_literals;
mod snippet;
pub(crate) mod trigrams;

pub(crate) use json_fields::is_secret;
pub use json_fields::{FieldMatch, search_bytes, search_json, search_text};
pub use matcher::{Case, Matcher, Pattern, PatternError};
pub use snippet::Snippet;
