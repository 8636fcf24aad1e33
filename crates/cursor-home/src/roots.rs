//! cursor-agent's directories: the config root, the data root and `$HOME/.cursor`.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The variables that determine the roots, as the caller found them in the environment.
#[derive(Debug, Clone, Default)]
pub struct HostEnvironment {
    pub home: Option<OsString>,
    pub cursor_config_dir: Option<OsString>,
    pub xdg_config_home: Option<OsString>,
    pub cursor_data_dir: Option<OsString>,
    /// Relative values are resolved against it.
    pub cwd: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootsError {
    #[error("`HOME` is not set")]
    NoHome,
    #[error(
        "`{variable}` is the relative path `{}`, and the working directory is not known",
        .value.display()
    )]
    RelativeWithoutCwd { variable: &'static str, value: PathBuf },
}

/// The three directories that contain all of Cursor's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorRoots {
    home: PathBuf,
    config: PathBuf,
    data: PathBuf,
    xdg_config_home: Option<PathBuf>,
}

impl CursorRoots {
    /// Returns the roots that the user's own cursor-agent would use.
    pub fn of_host(host: &HostEnvironment) -> Result<Self, RootsError> {
        let home = host.directory("HOME", &host.home)?.ok_or(RootsError::NoHome)?;
        let config_override = host.directory("CURSOR_CONFIG_DIR", &host.cursor_config_dir)?;
        let xdg_config_home = host.directory("XDG_CONFIG_HOME", &host.xdg_config_home)?;
        let data_override = host.directory("CURSOR_DATA_DIR", &host.cursor_data_dir)?;
        let dot_cursor = home.join(".cursor");
        let config = config_override
            .or_else(|| xdg_config_home.as_deref().map(|xdg| xdg.join("cursor")))
            .unwrap_or_else(|| dot_cursor.clone());
        Ok(Self { home, config, data: data_override.unwrap_or(dot_cursor), xdg_config_home })
    }

    /// Returns the roots inside a sandbox, where Caretaker sets the variables so that both are `$HOME/.cursor`.
    pub fn in_sandbox(home: &Path) -> Self {
        let dot_cursor = home.join(".cursor");
        Self {
            home: home.to_path_buf(),
            config: dot_cursor.clone(),
            data: dot_cursor,
            xdg_config_home: None,
        }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn config(&self) -> &Path {
        &self.config
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns `$HOME/.cursor`, which no variable moves.
    pub fn dot_cursor(&self) -> PathBuf {
        self.home.join(".cursor")
    }

    pub fn chats(&self) -> PathBuf {
        self.config.join("chats")
    }

    pub fn cli_config(&self) -> PathBuf {
        self.config.join("cli-config.json")
    }

    pub fn projects(&self) -> PathBuf {
        self.data.join("projects")
    }

    /// Returns the user's own MCP file. It is always below HOME, regardless of the other variables.
    pub fn user_mcp_json(&self) -> PathBuf {
        self.dot_cursor().join("mcp.json")
    }

    pub fn agent_cli_state(&self) -> PathBuf {
        self.dot_cursor().join("agent-cli-state.json")
    }

    /// Returns the directories where sessions of `agent acp` may be, likeliest first.
    // So far they have only been seen below `~/.cursor`. An overridden config root may or may not move them.
    pub fn acp_sessions(&self) -> Vec<PathBuf> {
        without_repeats(
            [self.dot_cursor(), self.config.clone()].map(|root| root.join("acp-sessions")),
        )
    }

    /// Returns the paths where the login file may be, likeliest first.
    // Linux builds use `~/.config/cursor`. `XDG_CONFIG_HOME` may or may not move it, so both count. macOS builds use
    // `~/.cursor`.
    pub fn auth_files(&self) -> Vec<PathBuf> {
        let xdg = self.xdg_config_home.as_deref().map(|xdg| xdg.join("cursor"));
        let fixed = [self.home.join(".config/cursor"), self.dot_cursor()];
        without_repeats(xdg.into_iter().chain(fixed).map(|directory| directory.join("auth.json")))
    }
}

impl HostEnvironment {
    /// Resolves a variable as node does: an empty one is unset, a relative one is below the working directory.
    fn directory(
        &self,
        variable: &'static str,
        value: &Option<OsString>,
    ) -> Result<Option<PathBuf>, RootsError> {
        let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let value = Path::new::<OsStr>(value);
        let absolute = match &self.cwd {
            _ if value.is_absolute() => value.to_path_buf(),
            Some(cwd) if cwd.is_absolute() => cwd.join(value),
            _ => {
                let value = value.to_path_buf();
                return Err(RootsError::RelativeWithoutCwd { variable, value });
            }
        };
        Ok(Some(without_dots(&absolute)))
    }
}

/// Removes `.`, `..` and repeated slashes from the text, as node's `path.resolve` and `path.join` do.
#[must_use]
pub fn without_dots(absolute: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::CurDir => {}
            // At the root this does nothing, as in the file system.
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn without_repeats(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    for path in paths {
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;
