//! A process's variables, home and working directory. The binary reads them once and passes them on as values.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, HostEnvironment};
use nix::unistd::{Uid, User};
use run_protocol::ExitCode;

use crate::command_error::CommandError;

/// The environment of a command.
#[derive(Debug, Clone)]
pub struct Environment {
    pub home: PathBuf,
    pub working_directory: PathBuf,
    pub uid: Uid,
    /// The variables that are not empty, in their original order.
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        working_directory: PathBuf,
        uid: Uid,
    ) -> Result<Self, CommandError> {
        let variables: Vec<_> =
            variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let named = variables.iter().find(|(name, _)| name == "HOME").map(|(_, value)| value);
        let home = match named {
            Some(home) => PathBuf::from(home),
            // Daemons and `env -i` have no HOME, but the user database has one.
            None => User::from_uid(uid).ok().flatten().map(|user| user.dir).unwrap_or_default(),
        };
        if !home.is_absolute() {
            let what = format!("`{}` is not the absolute path of a home directory", home.display());
            return Err(CommandError::new(ExitCode::Usage, what).hint("set HOME"));
        }
        Ok(Self { home, working_directory, uid, variables })
    }

    /// A variable, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_os_str())
    }

    /// All variables.
    pub fn variables(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.variables.iter()
    }

    /// All variables that are UTF-8.
    pub(crate) fn utf8_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// A directory from a variable. A relative path counts as unset, as the XDG specification requires.
    pub(crate) fn absolute_path(&self, name: &str) -> Option<&Path> {
        self.variable(name).map(Path::new).filter(|path| path.is_absolute())
    }

    /// Makes a path that the user typed absolute.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.working_directory.join(path)
    }

    /// The directories of the user's own agent on this host.
    pub fn cursor_roots(&self) -> Result<CursorRoots, CommandError> {
        let owned = |name| self.variable(name).map(ToOwned::to_owned);
        let roots = CursorRoots::of_host(&HostEnvironment {
            home: Some(self.home.clone().into()),
            cursor_config_dir: owned("CURSOR_CONFIG_DIR"),
            xdg_config_home: owned("XDG_CONFIG_HOME"),
            cursor_data_dir: owned("CURSOR_DATA_DIR"),
            cwd: Some(self.working_directory.clone()),
        })?;
        Ok(roots)
    }
}

#[cfg(test)]
#[path = "environment_tests.rs"]
pub mod tests;
