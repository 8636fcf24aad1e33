//! How a command fails: what is wrong, because of what, and one thing to try.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::view::safe_text::on_one_line;

/// A failure of a command, ready to be printed.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

/// What the exit code says of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// What was named is not there: exit 3.
    NotFound,
    /// The reader of our output went away. Nothing to say, and nobody to say it to: exit 0.
    BrokenPipe,
    /// Anything else, an input or output error mostly: exit 1.
    Failed,
}

impl CommandError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, hint: None }
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A failed write to stdout.
    pub(crate) fn writing(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(ErrorKind::BrokenPipe, "the reader of the output went away");
        }
        Self::new(ErrorKind::Failed, "the output could not be written").because(error)
    }

    /// Prints the failure and gives the exit code it stands for.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self.kind {
            ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            ErrorKind::Failed => 1,
            ErrorKind::NotFound => 3,
        };
        // With stderr gone too there is no one left to tell.
        write!(anstream::stderr(), "{}", self.text()).ok();
        ExitCode::from(code)
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}\n", on_one_line(&self.message));
        let mut source = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(cause) = source {
            writeln!(text, "  because {}", on_one_line(&cause.to_string())).ok();
            source = cause.source();
        }
        if let Some(hint) = &self.hint {
            writeln!(text, "\nhint: {}", on_one_line(hint)).ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_what_to_try_without_control_characters() {
        let error = CommandError::new(ErrorKind::NotFound, "`a\u{1b}[2J` cannot be read")
            .because(io::Error::other("no such file"))
            .hint("look for it");
        assert_eq!(
            error.text(),
            "error: `a␛[2J` cannot be read\n  because no such file\n\nhint: look for it\n"
        );
    }
}
