//! Durations as people write them: `20m`, `1h 30m`, `500ms`, `none`.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, de};

/// A span of time, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanDuration {
    Unlimited,
    Limited(Duration),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write `20m`, `1h30m`, `90s`, `500ms` or `none`")]
pub struct NotADuration(String);

impl HumanDuration {
    /// Whole milliseconds; zero stands for no limit.
    pub fn milliseconds(self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Limited(duration) => u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

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

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

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
