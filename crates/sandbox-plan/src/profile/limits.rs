//! The `limits` section of a profile.

use std::str::FromStr;

use run_protocol::CpuLimit;
use serde::{Deserialize, Deserializer};

use super::values::{Size, deserialize_from_text};
use crate::origin::Sourced;

/// The `limits` section. Zero means no limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileLimits {
    /// Bytes of memory for all processes together.
    pub memory: Sourced<MemoryRule>,
    /// Processes and threads.
    pub processes: Sourced<u64>,
    /// The share of a busy processor; 100 is the default share of a process.
    pub cpu_weight: Sourced<u64>,
    /// Thousandths of a processor.
    #[serde(rename = "cpus", deserialize_with = "processors_or_none")]
    pub cpu_milli: Sourced<u64>,
    /// Bytes of one file.
    #[serde(deserialize_with = "bytes_or_none")]
    pub file_size: Sourced<u64>,
    /// Files that one process may have open.
    pub open_files: Sourced<u64>,
    /// Bytes that the run may add to the host's writable directories.
    #[serde(deserialize_with = "bytes_or_none")]
    pub disk: Sourced<u64>,
    /// True if the run must not start without a cgroup that limits memory and processes.
    pub required: Sourced<bool>,
}

/// The key `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRule {
    /// An amount that suits the machine.
    Auto,
    /// Zero means no limit.
    Bytes(u64),
}

impl MemoryRule {
    /// Returns the limit. `auto` is the limit for [`Self::Auto`].
    pub fn bytes(self, auto: u64) -> u64 {
        match self {
            Self::Auto => auto,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for MemoryRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => text.parse().map(|SizeLimit(bytes)| Self::Bytes(bytes)),
        }
    }
}

deserialize_from_text!(MemoryRule);

/// A size, or `none`.
struct SizeLimit(u64);

impl FromStr for SizeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(0)),
            text => text.parse().map(|Size(bytes)| Self(bytes)),
        }
    }
}

deserialize_from_text!(SizeLimit);

fn bytes_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sourced<u64>, D::Error> {
    let Sourced { value: SizeLimit(value), origin } = Sourced::deserialize(deserializer)?;
    Ok(Sourced { value, origin })
}

fn processors_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Sourced<u64>, D::Error> {
    let Sourced { value: CpuLimit(value), origin } = Sourced::deserialize(deserializer)?;
    Ok(Sourced { value, origin })
}
