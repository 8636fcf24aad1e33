//! What every command begins with: the host it works on, the user's configuration, our own program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use admission::command_error::CommandError;
use admission::config::Config;
use admission::host::Host;

use crate::surroundings;

/// Made once per process, by the entry point, and handed to the command. The configuration and the program are looked up
/// when a command first asks: one that needs neither works even where they are broken.
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

    /// Our own program, as its links lead to it.
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
