//! The agent's environment: the variables that Caretaker sets, and those that the agent must not inherit.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::roots::CursorRoots;

/// The values that differ from run to run. The caller adds the user's key or proxy.
#[derive(Debug, Clone, Copy)]
pub struct AgentEnvironment<'a> {
    pub home: &'a Path,
    pub path: &'a OsStr,
    pub shell: &'a Path,
}

impl AgentEnvironment<'_> {
    /// Returns the variables to set, each once.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let roots = CursorRoots::in_sandbox(self.home);
        vec![
            ("HOME", self.home.into()),
            ("PATH", self.path.into()),
            ("SHELL", self.shell.into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
            // These are the defaults. Setting them makes every version agree.
            ("CURSOR_CONFIG_DIR", roots.config().into()),
            ("CURSOR_DATA_DIR", roots.data().into()),
            ("NO_OPEN_BROWSER", "1".into()),
            // A sandbox has no keychain.
            ("AGENT_CLI_CREDENTIAL_STORE", "file".into()),
        ]
    }
}

/// Returns true if the agent must not inherit this variable, even without a sandbox.
pub fn is_stripped(name: &OsStr) -> bool {
    // The agent's node refuses to start with some options. The other variables would move the directories that
    // Caretaker prepares and reads.
    matches!(name.as_encoded_bytes(), b"NODE_OPTIONS" | b"CURSOR_CONFIG_DIR" | b"CURSOR_DATA_DIR")
        || name.as_encoded_bytes().starts_with(b"XDG_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn variables() -> Vec<(&'static str, OsString)> {
        AgentEnvironment {
            home: Path::new("/home/ada"),
            path: OsStr::new("/usr/bin:/bin"),
            shell: Path::new("/bin/bash"),
        }
        .variables()
    }

    #[test]
    fn the_agent_gets_exactly_these_variables() {
        let listed: Vec<String> = variables()
            .into_iter()
            .map(|(name, value)| format!("{name}={}", value.display()))
            .collect();
        assert_eq!(
            listed,
            [
                "HOME=/home/ada",
                "PATH=/usr/bin:/bin",
                "SHELL=/bin/bash",
                "LANG=C.UTF-8",
                "TERM=dumb",
                "CURSOR_CONFIG_DIR=/home/ada/.cursor",
                "CURSOR_DATA_DIR=/home/ada/.cursor",
                "NO_OPEN_BROWSER=1",
                "AGENT_CLI_CREDENTIAL_STORE=file",
            ]
        );
    }

    #[test]
    fn variables_that_break_or_move_the_agent_are_stripped() {
        for name in [
            "NODE_OPTIONS",
            "CURSOR_CONFIG_DIR",
            "CURSOR_DATA_DIR",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
        ] {
            assert!(is_stripped(OsStr::new(name)), "{name}");
        }
        for name in
            ["CURSOR_API_KEY", "HTTPS_PROXY", "HOME", "NODE_EXTRA_CA_CERTS", "MY_NODE_OPTIONS"]
        {
            assert!(!is_stripped(OsStr::new(name)), "{name}");
        }
    }
}
