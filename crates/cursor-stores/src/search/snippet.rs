//! The text around a find.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How much is shown on each side, in characters.
const MARGIN: usize = 60;
/// A find of a regular expression may be as long as the text.
const LONGEST_FIND: usize = 240;

/// What was found, with what stands around it. Not fit for a terminal: it may hold anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snippet {
    pub before: String,
    pub found: String,
    pub after: String,
}

impl Snippet {
    /// Cuts the surroundings of `range`, which must be a range of `text`.
    #[must_use]
    pub fn around(text: &str, range: Range<usize>) -> Self {
        let (before, rest) = text.split_at_checked(range.start).unwrap_or(("", text));
        let (found, after) = rest.split_at_checked(range.len()).unwrap_or((rest, ""));
        let skipped = before.char_indices().rev().nth(MARGIN - 1).map_or(0, |(at, _)| at);
        Self {
            before: before.get(skipped..).unwrap_or_default().to_owned(),
            found: found.chars().take(LONGEST_FIND).collect(),
            after: after.chars().take(MARGIN).collect(),
        }
    }
}
