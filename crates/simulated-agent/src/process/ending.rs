//! How the process ends before its work is done.

use std::fmt::Display;
use std::io;

/// The end of the process: an exit code, and text for stderr.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    pub exit_code: u8,
    /// Empty if the process prints nothing.
    pub stderr: String,
}

impl Ending {
    /// Most failures: one line on stderr, exit 1, nothing on stdout.
    pub fn failure(line: impl Into<String>) -> Self {
        Self { exit_code: 1, stderr: line.into() + "\n" }
    }

    /// A failure that looks like the real agent's exceptions.
    pub fn error(error: impl Display) -> Self {
        Self::failure(format!("Error: {error}"))
    }

    pub fn quiet(exit_code: u8) -> Self {
        Self { exit_code, stderr: String::new() }
    }
}

/// The reader of stdout went away, or the disk is full.
impl From<io::Error> for Ending {
    fn from(err: io::Error) -> Self {
        Self::error(err)
    }
}
