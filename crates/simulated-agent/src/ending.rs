//! How the process ends before its work is done.

use std::io;

/// The end of the process: what stderr says and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    pub exit_code: u8,
    /// Written as it is; empty for silence.
    pub stderr: String,
}

impl Ending {
    /// Most failures: one line of talk, exit 1, nothing on stdout.
    pub fn failure(line: impl Into<String>) -> Self {
        Self { exit_code: 1, stderr: line.into() + "\n" }
    }

    pub fn quiet(exit_code: u8) -> Self {
        Self { exit_code, stderr: String::new() }
    }
}

/// Whoever read our output is gone, or the disk is full.
impl From<io::Error> for Ending {
    fn from(err: io::Error) -> Self {
        Self::failure(format!("Error: {err}"))
    }
}
