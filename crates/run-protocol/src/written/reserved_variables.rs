//! Variables that a user may not set for an agent: those that Caretaker sets, those that point to another proxy, and
//! those that decide what is loaded before the agent's first line runs.

use std::fmt;

/// Why a variable is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// Caretaker sets it, or programs use it to find Caretaker's directories.
    Ours,
    /// It tells programs which proxy to use.
    Proxy,
    /// It loads code into the agent, or into the shell that starts it.
    Loader,
}

const OURS: [&str; 10] = [
    "HOME",
    "PATH",
    "SHELL",
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "CURSOR_CONFIG_DIR",
    "CURSOR_DATA_DIR",
    "NO_OPEN_BROWSER",
    "AGENT_CLI_CREDENTIAL_STORE",
];
const OUR_BEGINNINGS: [&str; 3] = ["XDG_", "DBUS_", "CARETAKER_"];

/// Some programs read these in upper case, some in lower case, and some in both.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ftp_proxy",
    "socks_proxy",
    "ws_proxy",
    "wss_proxy",
];

/// The agent's launcher is a shell script, and the agent is a node program.
const LOADERS: [&str; 7] =
    ["NODE_OPTIONS", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "GLIBC_TUNABLES", "GCONV_PATH"];

/// Why the variable with this name is reserved; `None` if the user may set it.
pub fn reserved(name: &str) -> Option<Reserved> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| name.starts_with(begin));
    if PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy)) {
        return Some(Reserved::Proxy);
    }
    if LOADERS.contains(&name) || begins(&["LD_"]) {
        return Some(Reserved::Loader);
    }
    (OURS.contains(&name) || begins(&OUR_BEGINNINGS)).then_some(Reserved::Ours)
}

impl Reserved {
    /// Returns a hint: what the user can do instead.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Ours => "set it where caretaker itself is started, or choose another name",
            Self::Proxy => {
                "set it in caretaker's own environment; with --network host the agent gets it too"
            }
            Self::Loader => {
                "set it for the command that needs it, in the prompt or in a script in the workspace"
            }
        }
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ours => "is set by caretaker, or would break the agent",
            Self::Proxy => {
                "is set by caretaker: it directs programs to the hosts that the run may reach"
            }
            Self::Loader => "would load something into the agent before it starts",
        })
    }
}

#[cfg(test)]
#[path = "reserved_variables_tests.rs"]
mod tests;
