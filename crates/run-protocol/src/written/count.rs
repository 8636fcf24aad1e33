//! Counts as people write them: `500`, `20k`, `5M`, `none`.

use std::fmt;
use std::str::FromStr;

use super::{text_serde, write_limit};

/// A number, or no limit: zero. `5k` and `2M` are thousands and millions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountLimit(pub u64);

/// The text is no count.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number; write `500`, `20k`, `5M` or `none`")]
pub struct NotACount(String);

impl CountLimit {
    /// The count; `None` where there is no limit.
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
        // What `parse` takes beside digits is a sign.
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

text_serde!(CountLimit, "a number, or a text as in `20k`", or a number);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_may_be_short_and_what_is_none_is_refused() {
        let parsed = |text: &str| text.parse::<CountLimit>().map(|limit| limit.0);
        assert_eq!(
            ["500", "20k", "5M", "none", "0"].map(|it| parsed(it).unwrap()),
            [500, 20_000, 5_000_000, 0, 0]
        );
        for text in
            ["", "k", "-1", "+1", "1.5M", "many", "99999999999999999999", "20000000000000000M"]
        {
            assert_eq!(parsed(text), Err(NotACount(text.to_owned())), "{text}");
        }
    }
}
