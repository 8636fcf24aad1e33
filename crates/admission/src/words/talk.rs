//! Messages for the user, on stderr, separate from the data on stdout.

use std::io::Write;

use crate::words::safe_text::{on_lines, on_one_line};

/// A message from admission to the user. A command prints it on stderr; the API returns it to its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    Note(String),
    Warning(String),
}

impl Remark {
    /// Prints the remark on stderr.
    pub fn print(&self) {
        match self {
            Self::Note(text) => note(text),
            Self::Warning(text) => say(&format!("warning: {text}")),
        }
    }
}

impl From<Remark> for String {
    fn from(remark: Remark) -> Self {
        let (Remark::Note(text) | Remark::Warning(text)) = remark;
        on_one_line(&text).into_owned()
    }
}

/// Prints a note. If stderr is closed, the note is lost without harm.
pub fn note(text: &str) {
    writeln!(anstream::stderr(), "note: {}", on_one_line(text)).ok();
}

/// Prints a message about what just happened or what the user can do now. It may have several lines.
pub fn say(text: &str) {
    writeln!(anstream::stderr(), "{}", on_lines(text)).ok();
}
