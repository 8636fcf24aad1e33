//! A command's error: what is wrong, why, and one thing to try.

mod conversions;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use run_protocol::ExitCode;

use crate::words::safe_text::{on_lines, on_one_line};

/// A command's error, ready to print.
#[derive(Debug)]
pub struct CommandError {
    ending: Ending,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
    is_caused_by_request: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Failure(ExitCode),
    /// The reader of stdout went away. Nothing to report: exit 0.
    ReaderGone,
}

impl CommandError {
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        let (ending, message) = (Ending::Failure(code), message.into());
        Self { ending, message, source: None, hint: None, is_caused_by_request: false }
    }

    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn hint_if_any(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Marks a failure that the user can avoid with a different request, although its exit code does not say so.
    pub fn caused_by_request(mut self) -> Self {
        self.is_caused_by_request = true;
        self
    }

    pub fn is_caused_by_request(&self) -> bool {
        self.is_caused_by_request
    }

    /// Adds the number of the line in the user's file.
    pub fn in_line(mut self, line: usize) -> Self {
        self.message = format!("line {line}: {}", self.message);
        self
    }

    /// A failed write to stdout.
    pub fn writing(error: io::Error) -> Self {
        let reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
        let failed = Self::new(ExitCode::Failed, "the output could not be written").because(error);
        if reader_gone { Self { ending: Ending::ReaderGone, ..failed } } else { failed }
    }

    /// True if the only problem is that the reader of stdout went away.
    pub fn is_reader_gone(&self) -> bool {
        self.ending == Ending::ReaderGone
    }

    /// The exit code of the command.
    pub fn exit_code(&self) -> ExitCode {
        match self.ending {
            Ending::Failure(code) => code,
            Ending::ReaderGone => ExitCode::Success,
        }
    }

    /// Prints the error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if self.ending != Ending::ReaderGone {
            // If stderr is closed too, the error is lost.
            write!(anstream::stderr(), "{}", self.text()).ok();
        }
        self.exit_code()
    }

    /// The error and its causes on one line.
    pub fn message_with_causes(&self) -> String {
        let causes = self.causes().map(|cause| format!(": {cause}"));
        on_one_line(&std::iter::once(self.message.clone()).chain(causes).collect::<String>())
            .into_owned()
    }

    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    fn causes(&self) -> impl Iterator<Item = &dyn Error> {
        let first = self.source.as_deref().map(|source| source as &dyn Error);
        std::iter::successors(first, |&cause| cause.source())
    }

    pub fn text(&self) -> String {
        let mut text = format!("error: {}\n", on_one_line(&self.message));
        for cause in self.causes() {
            writeln!(text, "  because {}", on_one_line(&cause.to_string())).ok();
        }
        if let Some(hint) = &self.hint {
            // A hint may have several commands, one per line.
            writeln!(text, "\nhint: {}", on_lines(hint)).ok();
        }
        text
    }
}

/// Turns a step's error into a command error, with the step's error as its cause.
pub trait OrFail<T> {
    /// Uses the exit code `Failed`.
    fn or_fail<What: Into<String>>(self, what: impl FnOnce() -> What) -> Result<T, CommandError>;

    fn or_fail_as<What: Into<String>>(
        self,
        code: ExitCode,
        what: impl FnOnce() -> What,
    ) -> Result<T, CommandError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFail<T> for Result<T, E> {
    fn or_fail<What: Into<String>>(self, what: impl FnOnce() -> What) -> Result<T, CommandError> {
        self.or_fail_as(ExitCode::Failed, what)
    }

    fn or_fail_as<What: Into<String>>(
        self,
        code: ExitCode,
        what: impl FnOnce() -> What,
    ) -> Result<T, CommandError> {
        self.map_err(|error| CommandError::new(code, what()).because(error))
    }
}

#[cfg(test)]
#[path = "command_error_tests.rs"]
mod tests;
