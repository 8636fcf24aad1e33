//! What a limit says when a run has reached it.

use std::fmt;

use crate::LimitKind;

impl fmt::Display for LimitKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Startup => write!(out, "the agent did not begin in time"),
            Self::Idle => write!(out, "the agent was silent for too long"),
            Self::Tool { name } => write!(out, "the tool {name} did not come back in time"),
            Self::WallClock => write!(out, "the whole run took too long"),
            Self::Memory { bytes } => {
                write!(out, "its processes needed more memory than {} together", size(*bytes))
            }
            Self::Processes { most } => {
                write!(out, "it started more than {most} processes and threads")
            }
            Self::Disk { bytes } => {
                write!(out, "it added more than {} to what it can write", size(*bytes))
            }
            Self::Journal { bytes } => write!(out, "its journal grew beyond {}", size(*bytes)),
            Self::ToolCalls { most } => write!(out, "it called more than {most} tools"),
            Self::Tokens { most, taken } => write!(out, "it took {taken} tokens, more than {most}"),
            Self::Connections { most } => {
                write!(out, "it went on asking for more than {most} connections at once")
            }
            Self::FileSize { bytes } => write!(out, "it wrote a file larger than {}", size(*bytes)),
            Self::Tmp { bytes } => write!(out, "it filled its /tmp, which has {}", size(*bytes)),
            Self::Home { bytes } => {
                write!(out, "it filled its private home directory, which has {}", size(*bytes))
            }
            Self::Scratch { path, bytes } => {
                write!(out, "it filled `{}`, which has {}", path.0.display(), size(*bytes))
            }
        }
    }
}

impl LimitKind {
    /// Where the user can allow more; `None` where the limit is one of time, which the configuration names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Startup | Self::Idle | Self::Tool { .. } | Self::WallClock => return None,
            Self::Memory { .. } => "`--memory` allows more",
            Self::Processes { .. } => "`--processes` allows more",
            Self::Disk { .. } => "its record counts too; `--disk` allows more",
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
