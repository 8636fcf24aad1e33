//! Durations as people write them: `20m`, `1h 30m`, `500ms`, `none`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use super::text_serde;

/// A span of time, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanDuration {
    /// No limit.
    Unlimited,
    /// So long; never zero.
    Limited(Duration),
}

/// The text is no duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write `20m`, `1h30m`, `90s`, `500ms` or `none`")]
pub struct NotADuration(String);

impl HumanDuration {
    /// Of whole milliseconds, where zero stands for no limit.
    pub fn of_milliseconds(milliseconds: u64) -> Self {
        match milliseconds {
            0 => Self::Unlimited,
            limit => Self::Limited(Duration::from_millis(limit)),
        }
    }

    /// Whole milliseconds; zero stands for no limit.
    pub fn milliseconds(self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Limited(duration) => u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The duration; `None` where there is no limit.
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
        // What is shorter than we count would silently mean "no limit".
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
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, milliseconds) in [
            ("20m", 1_200_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("90s", 90_000),
            ("500ms", 500),
            ("2 hours", 7_200_000),
            ("1.5s", 1_500),
            ("none", 0),
            ("0", 0),
            ("0s", 0),
        ] {
            let duration: HumanDuration = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(duration.milliseconds(), milliseconds, "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_and_nonsense_are_refused() {
        for text in ["", "20", "-5s", "5 parsecs", "1mo", "100ns", "m", "never"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }
}
