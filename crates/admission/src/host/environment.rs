//! What a process finds around it: variables, home, working directory. The binary reads them once; here they are values.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, HostEnvironment};
use nix::unistd::{Uid, User};
use run_protocol::ExitCode;

use crate::command_error::CommandError;

/// The surroundings of a command.
#[derive(Debug, Clone)]
pub struct Environment {
    pub home: PathBuf,
    pub working_directory: PathBuf,
    pub uid: Uid,
    /// What is set and not empty, in the order of the process's environment.
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
            // Daemons and `env -i` leave it out; the user has one all the same.
            None => User::from_uid(uid).ok().flatten().map(|user| user.dir).unwrap_or_default(),
        };
        if !home.is_absolute() {
            let what = format!("`{}` is not the absolute path of a home directory", home.display());
            return Err(CommandError::new(ExitCode::Usage, what).hint("set HOME"));
        }
        Ok(Self { home, working_directory, uid, variables })
    }

    /// A variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_os_str())
    }

    /// Everything that is set.
    pub fn variables(&self) -> impl Iterator<Item = &(OsString, OsString)> {
        self.variables.iter()
    }

    /// Everything that is set and is text.
    pub(crate) fn utf8_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// A directory that a variable names. A relative one counts as unset, as the XDG specification says.
    pub(crate) fn absolute_path(&self, name: &str) -> Option<&Path> {
        self.variable(name).map(Path::new).filter(|path| path.is_absolute())
    }

    /// A path the user typed, made absolute.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.working_directory.join(path)
    }

    /// Where the user's own agent keeps its files on this host.
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
pub mod tests {
    use nix::unistd::geteuid;

    use super::*;

    /// An environment with these variables, in `/`.
    pub fn environment_of(variables: &[(&str, &Path)]) -> Environment {
        let variables =
            variables.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().into()));
        Environment::new(variables, PathBuf::from("/"), geteuid()).unwrap()
    }

    #[test]
    fn empty_and_relative_values_count_as_unset() {
        let environment = environment_of(&[
            ("HOME", Path::new("/home/ada")),
            ("XDG_STATE_HOME", Path::new("state")),
            ("XDG_CONFIG_HOME", Path::new("")),
        ]);
        assert_eq!(environment.absolute_path("XDG_STATE_HOME"), None);
        assert_eq!(environment.variable("XDG_CONFIG_HOME"), None);
        assert_eq!(environment.home, Path::new("/home/ada"));
    }

    #[test]
    fn without_the_variable_the_home_is_the_one_of_the_user() {
        let user = User::from_uid(geteuid()).unwrap().unwrap();
        assert_eq!(environment_of(&[]).home, user.dir);
    }

    #[test]
    fn a_relative_home_is_refused() {
        let variables = [(OsString::from("HOME"), OsString::from("here"))];
        let error = Environment::new(variables, PathBuf::from("/"), geteuid()).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage);
    }
}
