//! A run that the user wanted without a sandbox: the agent as the user's own would be, supervised all the same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::sandbox::keeper;

/// What is started for it.
#[derive(Debug)]
pub(crate) struct UnconfinedPlan {
    /// Our own program: the keeper, and the gate below it.
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

    /// Without a secret: everybody can read a command line.
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

    /// What the user is told, in the record too.
    pub(crate) fn warning() -> String {
        "no sandbox: the agent may do whatever you may do".to_owned()
    }
}
