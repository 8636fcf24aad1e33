//! Gives every command the host, the user's configuration and the path of this program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use admission::command_error::CommandError;
use admission::config::Config;
use admission::host::Host;

use crate::surroundings;

/// The entry point creates it once per process. It looks up the configuration and the program only when a command asks,
/// so a command that needs neither works even if they are broken.
#[derive(Debug)]
pub(crate) struct CommandHelper {
    pub(crate) host: Host,
    config: OnceLock<Config>,
    program: OnceLock<PathBuf>,
}

impl CommandHelper {
    pub(crate) fn of_process() -> Result<Self, CommandError> {
        let host = surroundings::host()?;
        Ok(Self { host, config: OnceLock::new(), program: OnceLock::new() })
    }

    /// The user's configuration.
    pub(crate) fn config(&self) -> Result<&Config, CommandError> {
        known_or(&self.config, || self.host.load_config())
    }

    /// The path of this program, without links.
    pub(crate) fn program(&self) -> Result<&Path, CommandError> {
        known_or(&self.program, surroundings::own_program).map(PathBuf::as_path)
    }
}

fn known_or<T>(
    known: &OnceLock<T>,
    look_up: impl FnOnce() -> Result<T, CommandError>,
) -> Result<&T, CommandError> {
    match known.get() {
        Some(known) => Ok(known),
        None => look_up().map(|found| known.get_or_init(|| found)),
    }
}
