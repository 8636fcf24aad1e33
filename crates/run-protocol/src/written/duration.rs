//! Durations as people write them: `20m`, `1h 30m`, `500ms`, `none`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use super::text_serde;

/// A duration, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanDuration {
    Unlimited,
    /// Never zero.
    Limited(Duration),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write `20m`, `1h30m`, `90s`, `500ms` or `none`")]
pub struct NotADuration(String);

impl HumanDuration {
    /// From milliseconds; zero means no limit.
    pub fn of_milliseconds(milliseconds: u64) -> Self {
        match milliseconds {
            0 => Self::Unlimited,
            limit => Self::Limited(Duration::from_millis(limit)),
        }
    }

    /// In milliseconds; zero means no limit.
    pub fn milliseconds(self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Limited(duration) => u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The duration; `None` if there is no limit.
    pub fn limit(self) -> Option<Duration> {
        match self {
            Self::Unlimited => None,
            Self::Limited(duration) => Some(duration),
        }
    }
}

impl FromStr for HumanDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let text = text.trim();
        if matches!(text, "none" | "0") {
            return Ok(Self::Unlimited);
        }
        let refused = || NotADuration(text.to_owned());
        // The parser is more lenient than the message: it also knows ISO 8601 and `2 hours`.
        let duration: SignedDuration = text.parse().map_err(|_| refused())?;
        let duration = Duration::try_from(duration).map_err(|_| refused())?;
        // Less than a millisecond would become zero, which means "no limit".
        match duration.as_millis() {
            0 if duration.is_zero() => Ok(Self::Unlimited),
            0 => Err(refused()),
            _ => Ok(Self::Limited(duration)),
        }
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => formatter.write_str("none"),
            Self::Limited(duration) => match duration.subsec_nanos() {
                0 => write!(formatter, "{}s", duration.as_secs()),
                nanos if nanos % 1_000_000 == 0 => write!(formatter, "{}ms", duration.as_millis()),
                _ => write!(formatter, "{}ns", duration.as_nanos()),
            },
        }
    }
}

text_serde!(HumanDuration, "a string such as `20m`");

#[cfg(test)]
#[path = "duration_tests.rs"]
mod tests;
