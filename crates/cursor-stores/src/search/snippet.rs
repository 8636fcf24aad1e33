//! The text around a match.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The number of characters to show on each side.
const MARGIN: usize = 60;
/// The number of letters on each side that identify a place.
const NEAR: usize = 12;
/// A match of a regular expression may be as long as the text.
const LONGEST_FIND: usize = 240;

/// A match with the text around it. It may contain anything, so escape it before printing it to a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snippet {
    pub before: String,
    pub found: String,
    pub after: String,
}

impl Snippet {
    /// Cuts out the text around `range`, which must be a range in `text`.
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

    /// Identifies a place in a text across stores: the letters around the match, up to the next tag, because some
    /// stores put text between tags and others do not.
    #[must_use]
    pub fn surroundings(&self) -> String {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<Vec<_>>();
        let before = letters(self.before.rsplit('>').next().unwrap_or_default());
        let after = letters(self.after.split('<').next().unwrap_or_default());
        let near_before = before.iter().skip(before.len().saturating_sub(NEAR));
        near_before.chain(&letters(&self.found)).chain(after.iter().take(NEAR)).collect()
    }
}
