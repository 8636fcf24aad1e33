//! Counts as people write them: `500`, `20k`, `5M`, `none`.

use std::fmt;
use std::str::FromStr;

use super::{text_serde, write_limit};

/// A number; zero means no limit. `5k` and `2M` are thousands and millions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountLimit(pub u64);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number; write `500`, `20k`, `5M` or `none`")]
pub struct NotACount(String);

impl CountLimit {
    /// The count; `None` if there is no limit.
    pub fn limit(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

impl FromStr for CountLimit {
    type Err = NotACount;

    fn from_str(text: &str) -> Result<Self, NotACount> {
        let refused = || NotACount(text.to_owned());
        let number = text.trim();
        if number == "none" {
            return Ok(Self(0));
        }
        let (digits, factor) = match number.char_indices().last() {
            Some((at, 'k' | 'K')) => (&number[..at], 1_000),
            Some((at, 'm' | 'M')) => (&number[..at], 1_000_000),
            _ => (number, 1),
        };
        // `parse` would also accept a sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let number: u64 = digits.parse().map_err(|_| refused())?;
        number.checked_mul(factor).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for CountLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_limit(formatter, self.0, "")
    }
}

text_serde!(CountLimit, "a number, or text such as `20k`", or a number);

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
