//! What a run may take of the machine, as flags, configuration and profile say it together.

use std::str::FromStr;

use run_protocol::{ResourceLimits, RunLimits};
use sandbox_plan::{Profile, ProfileLimits};
use serde::{Deserialize, Deserializer, de};

use crate::budgets::CountLimit;
use crate::request::run_options::RunOptions;
use crate::words::byte_size::ByteSize;
use crate::words::human_duration::HumanDuration;

/// Below this no agent starts.
const LEAST_MEMORY: u64 = 64 << 20;
/// The sandbox itself needs some, and node starts a dozen threads.
const LEAST_PROCESSES: u64 = 24;

/// Limits that were given; what is not given is left to whoever comes next.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct LimitOptions {
    /// The most memory for all processes of the run together: `4GiB`, `none`. Default: the profile's.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub memory: Option<MemoryLimit>,
    /// The most processes and threads at any moment; `none` for no limit.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub processes: Option<ProcessLimit>,
    /// The most processors to use: `1.5`, `none`.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub cpus: Option<CpuLimit>,
    /// The most that any one file may hold: `1GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub max_file_size: Option<SizeLimit>,
    /// The most that the run may add to the workspace, to whatever else it can write on the host, and to our record of it:
    /// `10GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub disk: Option<SizeLimit>,
}

/// What takes precedence: each of the first over each of the second, and both over the profile.
pub fn resources(flags: &LimitOptions, config: &LimitOptions, profile: &Profile) -> ResourceLimits {
    let mut limits = profile.limits().map(of_profile).unwrap_or_default();
    for given in [config, flags] {
        apply(given, &mut limits);
    }
    limits
}

/// Puts what was given in the place of what there was.
pub fn apply(given: &LimitOptions, limits: &mut ResourceLimits) {
    let LimitOptions { memory, processes, cpus, max_file_size, disk } = given;
    let decided = [
        (&mut limits.memory_bytes, memory.map(|limit| limit.0)),
        (&mut limits.processes, processes.map(|limit| limit.0)),
        (&mut limits.cpu_milli, cpus.map(|limit| limit.0)),
        (&mut limits.file_bytes, max_file_size.map(|limit| limit.0)),
        (&mut limits.disk_bytes, disk.map(|limit| limit.0)),
    ];
    for (limit, given) in decided {
        *limit = given.unwrap_or(*limit);
    }
}

/// Puts the limits of a run itself, as far as they were given, in the place of what there was.
pub fn apply_to_run(given: &RunOptions, limits: &mut RunLimits) {
    let decided = [
        (&mut limits.wall_ms, given.timeout.map(HumanDuration::milliseconds)),
        (&mut limits.idle_ms, given.idle_timeout.map(HumanDuration::milliseconds)),
        (&mut limits.tool_calls, given.max_tool_calls.map(|CountLimit(most)| most)),
        (&mut limits.tokens, given.max_tokens.map(|CountLimit(most)| most)),
        (&mut limits.journal_bytes, given.journal.map(|SizeLimit(most)| most)),
    ];
    for (limit, given) in decided {
        *limit = given.unwrap_or(*limit);
    }
}

pub fn of_profile(limits: &ProfileLimits) -> ResourceLimits {
    ResourceLimits {
        memory_bytes: limits.memory.value,
        processes: limits.processes.value,
        cpu_weight: limits.cpu_weight.value,
        cpu_milli: limits.cpu_milli.value,
        file_bytes: limits.file_size.value,
        open_files: limits.open_files.value,
        disk_bytes: limits.disk.value,
        required: limits.required,
    }
}

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

macro_rules! from_text {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
from_text!(SizeLimit, MemoryLimit, ProcessLimit, CpuLimit);

#[cfg(test)]
#[path = "limit_options_tests.rs"]
mod tests;
