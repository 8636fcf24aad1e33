//! What a continued run may do that the run before it might not.

use serde::{Deserialize, Serialize};

/// Something that bounds a run. The words are those of the flags that set it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The sandbox profile.
    Profile,
    /// The mode of the network.
    Network,
    /// The hosts that the run may reach.
    AllowHost,
    /// What of the host is shown in the sandbox.
    Expose,
    /// The agent's program and its version.
    Agent,
    /// Whether the agent only reads.
    Mode,
    /// Whether tools run unasked.
    Force,
    /// The user's own MCP servers.
    UserMcp,
    /// Servers of the repository's own file.
    McpFromRepo,
    /// Secrets that the user named.
    Secret,
    /// The group, and with it the group's budget.
    Group,
    /// The time of the whole run.
    Timeout,
    /// Silence.
    IdleTimeout,
    /// Calls of tools.
    MaxToolCalls,
    /// Tokens.
    MaxTokens,
    /// Memory.
    Memory,
    /// Processes and threads.
    Processes,
    /// Processors.
    Cpus,
    /// The size of any one file.
    MaxFileSize,
    /// What is added to the disk.
    Disk,
    /// The size of the journal.
    Journal,
    /// Limits that have no flag.
    Limits,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Profile,
        Self::Network,
        Self::AllowHost,
        Self::Expose,
        Self::Agent,
        Self::Mode,
        Self::Force,
        Self::UserMcp,
        Self::McpFromRepo,
        Self::Secret,
        Self::Group,
        Self::Timeout,
        Self::IdleTimeout,
        Self::MaxToolCalls,
        Self::MaxTokens,
        Self::Memory,
        Self::Processes,
        Self::Cpus,
        Self::MaxFileSize,
        Self::Disk,
        Self::Journal,
        Self::Limits,
    ];

    /// The word for it on the command line and in events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Network => "network",
            Self::AllowHost => "allow-host",
            Self::Expose => "expose",
            Self::Agent => "agent",
            Self::Mode => "mode",
            Self::Force => "force",
            Self::UserMcp => "user-mcp",
            Self::McpFromRepo => "mcp-from-repo",
            Self::Secret => "secret",
            Self::Group => "group",
            Self::Timeout => "timeout",
            Self::IdleTimeout => "idle-timeout",
            Self::MaxToolCalls => "max-tool-calls",
            Self::MaxTokens => "max-tokens",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpus => "cpus",
            Self::MaxFileSize => "max-file-size",
            Self::Disk => "disk",
            Self::Journal => "journal",
            Self::Limits => "limits",
        }
    }
}

/// A bound that holds a run less than the run that it continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Widening {
    /// Which.
    pub bound: Bound,
    /// What it was, for people to read.
    pub from: String,
    /// What it is now.
    pub to: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_bound_is_the_one_that_is_written() {
        for bound in Bound::ALL {
            assert_eq!(serde_json::to_value(bound).unwrap(), bound.word());
        }
    }
}
