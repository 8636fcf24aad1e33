//! What a run may take of the machine, as a profile says. How it is held to that is none of a profile's business.

use std::str::FromStr;

use super::layers::Layers;
use super::values::Size;
use super::{Origin, ProfileError};
use crate::origin::Sourced;

/// The limits of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLimits {
    /// Bytes of memory, of all processes together.
    pub memory: ProfileLimit,
    /// Processes and threads.
    pub processes: ProfileLimit,
    /// The share of a busy processor, 100 for everybody's.
    pub cpu_weight: ProfileLimit,
    /// Thousandths of a processor.
    pub cpu_milli: ProfileLimit,
    /// Bytes of one file.
    pub file_size: ProfileLimit,
    /// Files that a process may have open.
    pub open_files: ProfileLimit,
    /// Bytes that may be added to what can be written on the host.
    pub disk: ProfileLimit,
    /// Whether a run is refused where memory and processes cannot be held for all of it together.
    pub required: bool,
}

/// One limit and where it was written. Zero: none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLimit {
    pub value: u64,
    pub origin: Origin,
}

/// A size, or `none`.
struct SizeLimit(u64);

/// A number of processors, or `none`; kept in thousandths.
struct CpuLimit(u64);

impl ProfileLimits {
    pub(super) fn read(layers: &Layers) -> Result<Self, ProfileError> {
        let size = |sourced: Sourced<SizeLimit>| ProfileLimit {
            value: sourced.value.0,
            origin: sourced.origin,
        };
        let count =
            |sourced: Sourced<u64>| ProfileLimit { value: sourced.value, origin: sourced.origin };
        let cpus: Sourced<CpuLimit> = layers.parsed("limits.cpus", |raw| &raw.limits.cpus)?;
        Ok(Self {
            memory: size(layers.parsed("limits.memory", |raw| &raw.limits.memory)?),
            processes: count(layers.scalar("limits.processes", |raw| &raw.limits.processes)?),
            cpu_weight: count(layers.scalar("limits.cpu_weight", |raw| &raw.limits.cpu_weight)?),
            cpu_milli: ProfileLimit { value: cpus.value.0, origin: cpus.origin },
            file_size: size(layers.parsed("limits.file_size", |raw| &raw.limits.file_size)?),
            open_files: count(layers.scalar("limits.open_files", |raw| &raw.limits.open_files)?),
            disk: size(layers.parsed("limits.disk", |raw| &raw.limits.disk)?),
            required: layers.scalar("limits.required", |raw| &raw.limits.required)?.value,
        })
    }
}

impl FromStr for SizeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(0)),
            text => text.parse().map(|Size(bytes)| Self(bytes)),
        }
    }
}

impl FromStr for CpuLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(0));
        }
        thousandths(text).map(Self).ok_or_else(|| {
            format!("`{text}` is not a number of processors such as 1.5, nor `none`")
        })
    }
}

/// `1.5` as 1500, exactly: at most three digits after the point, and more than nothing.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || part.len() > 3 || !are_digits(part) {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= 100_000)?;
    Some(whole * 1000 + part).filter(|milli| *milli > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_in_thousandths() {
        for (text, milli) in [("1", 1000), ("1.5", 1500), ("0.25", 250), ("64", 64_000)] {
            assert_eq!(thousandths(text), Some(milli), "{text}");
        }
        for text in ["", "0", "0.0", ".5", "-1", "1.2345", "1e3", "x", "1.x", "9999999"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }
}
