//! Prints data to stdout: JSON and text. Most commands end with a print, so each print function returns the success
//! code.

use std::io::{self, IsTerminal, StdoutLock, Write};

use admission::command_error::CommandError;
use admission::words::safe_text;
use anstream::AutoStream;
use run_protocol::ExitCode;
use serde::Serialize;

use crate::view::table::table;
use crate::view::width::Width;

/// Writes data byte for byte to a program, and without control characters to a terminal.
pub(crate) struct Data {
    out: io::BufWriter<io::StdoutLock<'static>>,
    is_terminal: bool,
}

impl Data {
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout().lock();
        let is_terminal = stdout.is_terminal();
        Self { out: io::BufWriter::with_capacity(64 * 1024, stdout), is_terminal }
    }

    /// Writes one JSON value on its own line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        if self.is_terminal {
            let json = serde_json::to_string(value)?;
            self.out.write_all(safe_text::in_json(&json).as_bytes())?;
        } else {
            serde_json::to_writer(&mut self.out, value)?;
        }
        self.out.write_all(b"\n")
    }

    /// Writes JSON that spans many lines.
    pub(crate) fn json_lines(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.is_terminal {
            return write(&mut self.out);
        }
        let mut json = Vec::new();
        write(&mut json)?;
        for line in String::from_utf8_lossy(&json).lines() {
            self.out.write_all(safe_text::in_json(line).as_bytes())?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal {
            self.out.write_all(safe_text::on_lines(text).as_bytes())
        } else {
            self.out.write_all(text.as_bytes())
        }
    }
}

impl Write for Data {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints one JSON value.
pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitCode, CommandError> {
    let mut out = Data::of_stdout();
    printed(out.json(value).and_then(|()| out.flush()))
}

/// Prints a view for users, with colours if the terminal supports them.
pub(crate) fn print_view(
    print: impl FnOnce(&mut AutoStream<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<ExitCode, CommandError> {
    let mut out = anstream::stdout().lock();
    printed(print(&mut out).and_then(|()| out.flush()))
}

/// Prints a table, as wide as the terminal.
pub(crate) fn print_table<R: AsRef<[String]>>(
    header: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> Result<ExitCode, CommandError> {
    print_text(&format!("{}\n", table(header, rows, Width::of_stdout())))
}

/// Prints text.
pub(crate) fn print_text(text: &str) -> Result<ExitCode, CommandError> {
    let mut out = Data::of_stdout();
    printed(out.text(text).and_then(|()| out.flush()))
}

fn printed(written: io::Result<()>) -> Result<ExitCode, CommandError> {
    written.map(|()| ExitCode::Success).map_err(CommandError::writing)
}
