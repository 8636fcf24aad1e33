//! `[retention]` in the configuration: which old runs may be removed.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use run_protocol::{CountLimit, HumanDuration, SizeLimit};

/// An age in milliseconds, written as days, weeks or any duration. `None`: no age limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Age(pub Option<u64>);

/// How many runs to keep. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep(pub Option<u64>);

/// How many bytes all runs may take together. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaxSize(pub Option<u64>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an age; write `30d`, `2w`, `12h` or `none`")]
pub struct NotAnAge(String);

/// The word for a criterion that is not set. Zero is not the same: `--keep 0` keeps no run.
const NONE: &str = "none";

impl FromStr for Age {
    type Err = NotAnAge;

    fn from_str(text: &str) -> Result<Self, NotAnAge> {
        let refused = || NotAnAge(text.to_owned());
        let days = |digits: &str, factor: u64| {
            let number: u64 = digits.trim().parse().ok()?;
            number.checked_mul(factor * 24 * 3600 * 1000)
        };
        if text == NONE {
            return Ok(Self(None));
        }
        let milliseconds = match (text.strip_suffix('d'), text.strip_suffix('w')) {
            (Some(digits), _) => days(digits, 1),
            (None, Some(digits)) => days(digits, 7),
            (None, None) => text.parse::<HumanDuration>().ok().map(HumanDuration::milliseconds),
        };
        milliseconds.map(|it| Self(Some(it))).ok_or_else(refused)
    }
}

impl FromStr for Keep {
    type Err = <CountLimit as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = text.parse::<CountLimit>()?.0;
        Ok(Self((text != NONE).then_some(count)))
    }
}

impl FromStr for MaxSize {
    type Err = <SizeLimit as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let size = text.parse::<SizeLimit>()?.0;
        Ok(Self((text != NONE).then_some(size)))
    }
}

/// `[retention]` in the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    #[serde(deserialize_with = "from_text")]
    pub older_than: Age,
    #[serde(deserialize_with = "from_text")]
    pub keep: Keep,
    #[serde(deserialize_with = "from_text")]
    pub max_size: MaxSize,
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;
