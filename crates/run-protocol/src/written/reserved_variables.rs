//! Variables that nobody sets for an agent: those that the supervisor sets itself, those that lead it to another network,
//! and those that decide what is loaded before the agent's first line runs.

use std::fmt;

/// What a variable of this name would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// We set it, or the directories that we prepare are found by it.
    Ours,
    /// It says by which way programs leave the machine.
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

/// Programs read some of these in capitals, some in small letters, and some in both.
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

/// The agent's own launcher is a shell script, and the agent is a program for node.
const LOADERS: [&str; 7] =
    ["NODE_OPTIONS", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "GLIBC_TUNABLES", "GCONV_PATH"];

/// What a variable of this name would do that it must not.
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
    /// What to do instead.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Ours => "set it where caretaker itself is started, or choose another name",
            Self::Proxy => {
                "set it where caretaker itself is started: it goes by it, and with --network host the agent does"
            }
            Self::Loader => {
                "set it for the one command that needs it, in the prompt or in a script of the workspace"
            }
        }
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ours => "is set by caretaker, or would move or break the agent",
            Self::Proxy => {
                "is set by caretaker: it leads programs to the hosts that the run may reach"
            }
            Self::Loader => "would load something into the agent before it starts",
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_steers_the_supervisor_the_proxy_or_the_loader_is_reserved_and_the_rest_is_not() {
        for (name, expected) in [
            ("HOME", Some(Reserved::Ours)),
            ("PATH", Some(Reserved::Ours)),
            ("CURSOR_CONFIG_DIR", Some(Reserved::Ours)),
            ("XDG_CONFIG_HOME", Some(Reserved::Ours)),
            ("CARETAKER_SOCKET", Some(Reserved::Ours)),
            ("HTTPS_PROXY", Some(Reserved::Proxy)),
            ("https_proxy", Some(Reserved::Proxy)),
            ("Http_Proxy", Some(Reserved::Proxy)),
            ("NO_PROXY", Some(Reserved::Proxy)),
            ("ALL_PROXY", Some(Reserved::Proxy)),
            ("LD_PRELOAD", Some(Reserved::Loader)),
            ("LD_AUDIT", Some(Reserved::Loader)),
            ("NODE_OPTIONS", Some(Reserved::Loader)),
            ("BASH_ENV", Some(Reserved::Loader)),
            ("ENV", Some(Reserved::Loader)),
            ("NODE_EXTRA_CA_CERTS", None),
            ("MY_PATH", None),
            ("MY_HTTPS_PROXY_NOTE", None),
            ("ENVIRONMENT", None),
            ("RUST_LOG", None),
            ("NPM_TOKEN", None),
        ] {
            assert_eq!(reserved(name), expected, "{name}");
        }
    }

    #[test]
    fn whatever_the_supervisor_sets_is_reserved() {
        let agent = cursor_home::AgentEnvironment {
            home: "/home/ada".as_ref(),
            path: "/usr/bin".as_ref(),
            shell: "/bin/sh".as_ref(),
        };
        // A language and a terminal of one's own harm nobody.
        let is_free = |name: &str| matches!(name, "LANG" | "TERM");
        for (name, _) in agent.variables() {
            assert_eq!(reserved(name).is_none(), is_free(name), "{name}");
        }
    }
}
