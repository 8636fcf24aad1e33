//! Limits of the machine as people write them: `4GiB`, `512`, `1.5`, `none`.

use std::fmt;
use std::str::FromStr;

use super::{ByteSize, text_serde, write_limit};

/// Below this no agent starts.
const LEAST_MEMORY: u64 = 64 << 20;
/// The sandbox itself needs some, and node starts a dozen threads.
const LEAST_PROCESSES: u64 = 24;

/// A size, or none: zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimit(pub u64);

/// Memory, or no limit: zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit(pub u64);

/// A number of processes, or no limit: zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimit(pub u64);

/// Thousandths of a processor, or no limit: zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit(pub u64);

/// The text is no limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotALimit {
    /// It is no size.
    #[error("`{0}` is not a size; write `512MiB`, `2GiB` or `none`")]
    Size(String),
    /// No agent starts with so little memory.
    #[error("`{0}` is not enough for any agent; give at least 64MiB")]
    TooLittle(String),
    /// It is no number.
    #[error("`{0}` is not a number of processes; write `512` or `none`")]
    Count(String),
    /// No agent starts with so few processes.
    #[error("`{0}` is not enough for any agent; give at least {LEAST_PROCESSES}")]
    TooFew(String),
    /// It is no number of processors.
    #[error("`{0}` is not a number of processors; write `2`, `1.5` or `none`")]
    Processors(String),
}

impl FromStr for SizeLimit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        match text.trim() {
            "none" | "0" => Ok(Self(0)),
            size => match size.parse() {
                // Nothing may be written at all: nobody means that.
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
        // Less than a hundredth is as good as nothing, and the kernel does not take it.
        if !(0.01..=100_000.0).contains(&number) {
            return Err(NotALimit::Processors(text.to_owned()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was seen to be small and positive"
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn limits_are_read_as_people_write_them() {
        assert_eq!("4GiB".parse(), Ok(MemoryLimit(4 << 30)));
        assert_eq!("none".parse(), Ok(MemoryLimit(0)));
        assert_eq!("512".parse(), Ok(ProcessLimit(512)));
        assert_eq!("none".parse(), Ok(ProcessLimit(0)));
        assert_eq!("1.5".parse(), Ok(CpuLimit(1500)));
        assert_eq!("2".parse(), Ok(CpuLimit(2000)));
        assert_eq!("10 MiB".parse(), Ok(SizeLimit(10 << 20)));
    }

    #[test]
    fn limits_that_nobody_can_mean_are_refused_with_what_to_write() {
        let memory = |text: &str| text.parse::<MemoryLimit>().unwrap_err().to_string();
        assert_eq!(memory("4GB"), "`4GB` is not a size; write `512MiB`, `2GiB` or `none`");
        assert_eq!(memory("4"), "`4` is not a size; write `512MiB`, `2GiB` or `none`");
        assert_eq!(memory("1MiB"), "`1MiB` is not enough for any agent; give at least 64MiB");
        let processes = |text: &str| text.parse::<ProcessLimit>().unwrap_err().to_string();
        assert!(processes("many").contains("write `512` or `none`"));
        assert!(processes("3").contains("at least 24"));
        for text in ["-1", "0.001", "x", "inf", "NaN", "1e9"] {
            assert!(text.parse::<CpuLimit>().is_err(), "{text}");
        }
    }
}
