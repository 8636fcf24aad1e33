//! Machine limits as people write them: `4GiB`, `512`, `1.5`, `none`.

use std::fmt;
use std::str::FromStr;

use super::{ByteSize, text_serde, write_limit};

/// No agent starts with less.
const LEAST_MEMORY: u64 = 64 << 20;
/// The sandbox needs a few, and node starts a dozen threads.
const LEAST_PROCESSES: u64 = 24;

/// A size; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimit(pub u64);

/// An amount of memory; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

/// A number of processes; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimit(pub u64);

/// Thousandths of a processor; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit(pub u64);

/// Why a text is not a limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotALimit {
    #[error("`{0}` is not a size; write `512MiB`, `2GiB` or `none`")]
    Size(String),
    #[error("`{0}` is not enough for any agent; give at least 64MiB")]
    TooLittle(String),
    #[error("`{0}` is not a number of processes; write `512` or `none`")]
    Count(String),
    #[error("`{0}` is not enough for any agent; give at least {LEAST_PROCESSES}")]
    TooFew(String),
    #[error("`{0}` is not a number of processors; write `2`, `1.5` or `none`")]
    Processors(String),
}

impl FromStr for SizeLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        match text.trim() {
            "none" | "0" => Ok(Self(0)),
            size => match size.parse() {
                // A limit of zero bytes would forbid every write. No user means that.
                Ok(ByteSize(0)) | Err(_) => Err(NotALimit::Size(text.to_owned())),
                Ok(ByteSize(bytes)) => Ok(Self(bytes)),
            },
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        match text.parse()? {
            SizeLimit(1..LEAST_MEMORY) => Err(NotALimit::TooLittle(text.to_owned())),
            SizeLimit(bytes) => Ok(Self(bytes)),
        }
    }
}

impl FromStr for ProcessLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        match text.trim() {
            "none" => Ok(Self(0)),
            number => match number.parse() {
                Err(_) => Err(NotALimit::Count(text.to_owned())),
                Ok(1..LEAST_PROCESSES) => Err(NotALimit::TooFew(text.to_owned())),
                Ok(number) => Ok(Self(number)),
            },
        }
    }
}

impl FromStr for CpuLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        if matches!(text.trim(), "none" | "0") {
            return Ok(Self(0));
        }
        let number: f64 = text.trim().parse().unwrap_or(f64::NAN);
        // The kernel does not accept less than a hundredth.
        if !(0.01..=100_000.0).contains(&number) {
            return Err(NotALimit::Processors(text.to_owned()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the check above proves that it is small and positive"
        )]
        Ok(Self((number * 1000.0).round() as u64))
    }
}

impl fmt::Display for SizeLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_limit(formatter, self.0, "B")
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_limit(formatter, self.0, "B")
    }
}

impl fmt::Display for ProcessLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_limit(formatter, self.0, "")
    }
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => formatter.write_str("none"),
            milli => write!(formatter, "{}.{:03}", milli / 1000, milli % 1000),
        }
    }
}

text_serde!(SizeLimit, "a string such as `512MiB`");
text_serde!(MemoryLimit, "a string such as `4GiB`");
text_serde!(ProcessLimit, "a number, or `none`", or a number);
text_serde!(CpuLimit, "a number, as in `1.5`, or `none`", or a number);

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
