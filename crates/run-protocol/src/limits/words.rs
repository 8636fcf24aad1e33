//! The sentences about a limit that a run has reached.

use std::fmt;

use crate::LimitKind;

impl fmt::Display for LimitKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Startup => write!(out, "the agent did not start in time"),
            Self::Idle => write!(out, "the agent was silent for too long"),
            Self::Tool { name } => write!(out, "the tool {name} did not finish in time"),
            Self::WallClock => write!(out, "the run took too long"),
            Self::Memory { bytes } => write!(out, "memory limit ({}) exceeded", size(*bytes)),
            Self::Processes { most } => write!(out, "process limit ({most}) exceeded"),
            Self::Disk { bytes } => write!(out, "disk limit ({}) exceeded", size(*bytes)),
            Self::Journal { bytes } => write!(out, "journal limit ({}) exceeded", size(*bytes)),
            Self::ToolCalls { most } => write!(out, "tool-call limit ({most}) exceeded"),
            Self::Tokens { most, taken } => {
                write!(out, "token limit ({most}) exceeded: {taken} tokens used")
            }
            Self::Connections { most } => write!(out, "connection limit ({most}) exceeded"),
            Self::FileSize { bytes } => write!(out, "file-size limit ({}) exceeded", size(*bytes)),
            Self::Tmp { bytes } => write!(out, "/tmp is full ({})", size(*bytes)),
            Self::Home { bytes } => {
                write!(out, "the private home directory is full ({})", size(*bytes))
            }
            Self::Scratch { path, bytes } => {
                write!(out, "`{}` is full ({})", path.0.display(), size(*bytes))
            }
        }
    }
}

impl LimitKind {
    /// The setting that allows more; `None` for time limits, which are in the configuration.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Startup | Self::Idle | Self::Tool { .. } | Self::WallClock => return None,
            Self::Memory { .. } => "`--memory` allows more",
            Self::Processes { .. } => "`--processes` allows more",
            Self::Disk { .. } => "the run's own record counts too; `--disk` allows more",
            Self::Journal { .. } => "`--journal` allows more",
            Self::ToolCalls { .. } => "`--max-tool-calls` allows more",
            Self::Tokens { .. } => {
                "tokens are known only after the turn, so its changes stay; `--max-tokens` allows more"
            }
            Self::Connections { .. } => "`connections` in a profile's `[network]` allows more",
            Self::FileSize { .. } => "`--max-file-size` allows more",
            Self::Tmp { .. } => "`tmp` in a profile's `[temporary]` allows more",
            Self::Home { .. } => "`size` in a profile's `[home]` allows more",
            Self::Scratch { .. } => "a profile's `[temporary]` and `[kernel]` allow more",
        })
    }
}

/// A size as the user writes it in a flag.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
