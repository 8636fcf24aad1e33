//! How a command fails: what is wrong, because of what, and one thing to try.

mod conversions;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use run_protocol::ExitCode;

use crate::words::safe_text::{on_lines, on_one_line};

/// A failure of a command, ready to be printed.
#[derive(Debug)]
pub struct CommandError {
    ending: Ending,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Failure(ExitCode),
    /// The reader of our output went away. Nothing to say, and nobody to say it to: exit 0.
    ReaderGone,
}

impl CommandError {
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { ending: Ending::Failure(code), message: message.into(), source: None, hint: None }
    }

    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says in which line of the user's file it is.
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

    /// Whether it is only that nobody reads our output any more.
    pub fn is_reader_gone(&self) -> bool {
        self.ending == Ending::ReaderGone
    }

    /// The exit code it stands for.
    pub fn exit_code(&self) -> ExitCode {
        match self.ending {
            Ending::Failure(code) => code,
            Ending::ReaderGone => ExitCode::Success,
        }
    }

    /// Prints the failure and gives the exit code it stands for.
    pub fn report(&self) -> ExitCode {
        if self.ending != Ending::ReaderGone {
            // With stderr gone too there is no one left to tell.
            write!(anstream::stderr(), "{}", self.text()).ok();
        }
        self.exit_code()
    }

    /// What is wrong and because of what, on one line.
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
            // A hint may be a few commands, one a line.
            writeln!(text, "\nhint: {}", on_lines(hint)).ok();
        }
        text
    }
}

/// A failed step of a command: says what could not be done, with the step's own error as the reason.
pub trait OrFail<T> {
    /// With the exit code that says no more than that it failed.
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
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_what_to_try_without_control_characters() {
        let error = CommandError::new(ExitCode::NotFound, "`a\u{1b}[2J` cannot be read")
            .because(io::Error::other("no such file"))
            .hint("look for it");
        assert_eq!(
            error.text(),
            "error: `a␛[2J` cannot be read\n  because no such file\n\nhint: look for it\n"
        );
    }

    #[test]
    fn a_failed_step_is_the_reason_of_the_failure() {
        let step = || Err::<(), _>(io::Error::other("no such file"));
        let failed = step().or_fail(|| "the log cannot be read").unwrap_err();
        assert_eq!(failed.text(), "error: the log cannot be read\n  because no such file\n");
        assert_eq!(failed.exit_code(), ExitCode::Failed);
        let refused = step().or_fail_as(ExitCode::Usage, || "name another").unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert_eq!(Ok::<_, io::Error>(7).or_fail(|| "never said").unwrap(), 7);
    }
}
