//! A run without a sandbox. The agent runs like the user's own, but supervised.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::sandbox::keeper;

/// The command to start.
#[derive(Debug)]
pub(crate) struct UnconfinedPlan {
    /// Caretaker's own program: the keeper, and the gate below it.
    pub(crate) program: PathBuf,
    /// The agent with its arguments.
    pub(crate) agent: Vec<OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl UnconfinedPlan {
    pub(crate) fn keeper(&self) -> &Path {
        &self.program
    }

    /// The command line. It has no secrets, because every user can read it.
    pub(crate) fn keeper_arguments(&self) -> Vec<OsString> {
        let pid = std::process::id().to_string();
        let own = self.program.clone().into_os_string();
        let words = ["keeper".into(), pid.into(), own, "gate".into()];
        words.into_iter().chain(self.agent.iter().cloned()).collect()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn environment_bytes(&self) -> Vec<u8> {
        keeper::environment_bytes(&self.environment)
    }

    /// The warning for the user. The journal has it too.
    pub(crate) fn warning() -> String {
        "no sandbox: the agent may do everything that you may do".to_owned()
    }
}
