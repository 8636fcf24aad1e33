//! The bounds of a run, and the bounds that a continued run widens.

use serde::{Deserialize, Serialize};

macro_rules! bounds {
    ($($(#[doc = $what:literal])+ $bound:ident = $word:literal,)+) => {
        /// A bound on a run, named after the flag that sets it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Bound {
            $($(#[doc = $what])+ $bound,)+
        }

        impl Bound {
            pub const ALL: &[Self] = &[$(Self::$bound,)+];

            /// The bound's name on the command line and in events.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$bound => $word,)+
                }
            }
        }
    };
}

bounds! {
    /// The sandbox profile.
    Profile = "profile",
    /// The network mode.
    Network = "network",
    /// The hosts that the run may reach.
    AllowHost = "allow-host",
    /// The registries that the run may reach.
    Registries = "registries",
    /// The host's files that the sandbox shows.
    Expose = "expose",
    /// The agent's program and its version.
    Agent = "agent",
    /// The mode in which the agent only reads.
    Mode = "mode",
    /// Tools run without asking.
    Force = "force",
    /// The user's own allow and deny rules for the agent.
    Permissions = "permissions",
    /// The user's own MCP servers.
    UserMcp = "user-mcp",
    /// MCP servers from the repository's own file.
    McpFromRepo = "mcp-from-repo",
    /// Secrets that the user named.
    Secret = "secret",
    /// The group, and with it the group's budget.
    Group = "group",
    /// The time limit of the whole run.
    Timeout = "timeout",
    /// The limit on silence.
    IdleTimeout = "idle-timeout",
    /// Tool calls.
    MaxToolCalls = "max-tool-calls",
    /// Tokens.
    MaxTokens = "max-tokens",
    /// What happens if the agent repeats itself.
    Loop = "loop",
    /// Memory.
    Memory = "memory",
    /// Processes and threads.
    Processes = "processes",
    /// Processors.
    Cpus = "cpus",
    /// The size of any one file.
    MaxFileSize = "max-file-size",
    /// The growth on disk.
    Disk = "disk",
    /// The size of the journal.
    Journal = "journal",
    /// Limits that have no flag.
    Limits = "limits",
}

/// A bound that is wider than in the run that this run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Widening {
    /// The bound.
    pub bound: Bound,
    /// The old value, as text for people.
    pub from: String,
    /// The new value, as text for people.
    pub to: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_serialized_as_its_word() {
        for bound in Bound::ALL {
            assert_eq!(serde_json::to_value(bound).unwrap(), bound.word());
        }
    }
}
