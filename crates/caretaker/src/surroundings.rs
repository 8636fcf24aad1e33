//! The one place where this process reads its environment, its working directory and its streams.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::host::environment::Environment;
use nix::unistd::geteuid;
use run_protocol::ExitCode;

/// The host of this process.
pub(crate) fn host() -> Result<Host, CommandError> {
    environment().map(Host::new)
}

#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
fn environment() -> Result<Environment, CommandError> {
    let working_directory = std::env::current_dir().map_err(|error| {
        CommandError::new(ExitCode::Failed, "cannot read the working directory")
            .because(error)
            .hint("change to a directory that exists")
    })?;
    Environment::new(std::env::vars_os(), working_directory, geteuid())
}

/// The path of this program, without links.
pub(crate) fn own_program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .and_then(fs::canonicalize)
        .or_fail_as(ExitCode::SupervisorFailed, || "cannot find the caretaker program")
}

/// The kind of thing at the other end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Person,
    Program,
}

impl Audience {
    pub(crate) fn of_stdin() -> Self {
        Self::of(&io::stdin())
    }

    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    pub(crate) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        if stream.is_terminal() { Self::Person } else { Self::Program }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;

    /// An environment with these variables, in `/`.
    pub(crate) fn environment_of(variables: &[(&str, &Path)]) -> Environment {
        let variables =
            variables.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().into()));
        Environment::new(variables, PathBuf::from("/"), geteuid()).unwrap()
    }
}
