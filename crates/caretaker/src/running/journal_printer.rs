//! Prints the entries of a journal in the format that the user chose.

use std::io::{self, BufWriter, Write};

use admission::command_error::CommandError;
use admission::words::safe_text::{in_json, on_one_line};
use public_events::{EventWriter, write_raw};
use run_journal::{JournalEntry, JournalReader, Progress};
use run_protocol::{RunEvent, RunOutcome};

use crate::running::following::read_batch;
use crate::surroundings::Audience;
use crate::view::run::run_view::RunView;
use crate::view::width::Width;

/// The output format of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    ForAPerson,
    /// The public form of events.
    Json,
    /// The agent's own lines and nothing else.
    Raw,
}

enum Printer {
    ForAPerson(Box<RunView>),
    Json(EventWriter),
    Raw,
}

/// Prints entries to stdout, and remembers how the run ended.
pub(crate) struct JournalPrinter {
    printer: Printer,
    out: Box<dyn Write>,
    /// On a terminal, buffers one JSON or raw entry to remove its control characters. `None` for a pipe, which gets the
    /// exact bytes.
    on_terminal: Option<Vec<u8>>,
    ended: Option<RunOutcome>,
}

impl JournalPrinter {
    pub(crate) fn to_stdout(form: Form) -> Self {
        let audience = Audience::of_stdout();
        let out: Box<dyn Write> = match form {
            Form::ForAPerson => Box::new(buffered(anstream::stdout())),
            // A program also gets the agent's escape codes.
            Form::Json | Form::Raw => Box::new(buffered(io::stdout())),
        };
        Self::new(form, out, audience, Width::of_stdout())
    }

    /// Prints nothing, for a command that follows a run only to wait for its end.
    pub(crate) fn silent() -> Self {
        Self::new(Form::Raw, Box::new(io::sink()), Audience::Program, Width::Unlimited)
    }

    fn new(form: Form, out: Box<dyn Write>, audience: Audience, width: Width) -> Self {
        let printer = match form {
            Form::ForAPerson => Printer::ForAPerson(Box::new(RunView::new(width))),
            Form::Json => Printer::Json(EventWriter::default()),
            Form::Raw => Printer::Raw,
        };
        let on_terminal = (form != Form::ForAPerson && audience == Audience::Person).then(Vec::new);
        Self { printer, out, on_terminal, ended: None }
    }

    /// The outcome of the run, once its last event is printed.
    pub(crate) fn ended(&self) -> Option<&RunOutcome> {
        self.ended.as_ref()
    }

    /// Prints the next piece of the journal.
    pub(crate) fn print_next(
        &mut self,
        reader: &mut JournalReader,
    ) -> Result<Progress, CommandError> {
        if let Printer::ForAPerson(view) = &mut self.printer {
            view.resize(Width::of_stdout());
        }
        let mut printed = Ok(());
        let progress = read_batch(reader, &mut |entry| {
            if printed.is_ok() {
                printed = self.print(&entry);
            }
        })?;
        printed.and_then(|()| self.out.flush()).map_err(CommandError::writing)?;
        Ok(progress)
    }

    /// Prints the rest of the journal.
    pub(crate) fn print_all(&mut self, reader: &mut JournalReader) -> Result<(), CommandError> {
        while self.print_next(reader)? == Progress::Advanced {}
        Ok(())
    }

    /// Ends a line that is still open.
    pub(crate) fn finish(&mut self) -> Result<(), CommandError> {
        let ended = match &mut self.printer {
            Printer::ForAPerson(view) => view.end(&mut self.out),
            Printer::Json(_) | Printer::Raw => Ok(()),
        };
        ended.and_then(|()| self.out.flush()).map_err(CommandError::writing)
    }

    fn print(&mut self, entry: &JournalEntry<'_>) -> io::Result<()> {
        if let JournalEntry::Run { event: RunEvent::Ended { outcome, .. }, .. } = entry {
            self.ended = Some(outcome.clone());
        }
        let out: &mut dyn Write = match &mut self.on_terminal {
            Some(buffer) => {
                buffer.clear();
                buffer
            }
            None => &mut *self.out,
        };
        match (&mut self.printer, entry) {
            (Printer::ForAPerson(view), entry) => view.show(out, entry)?,
            (Printer::Json(writer), entry) => writer.write(out, entry)?,
            (Printer::Raw, JournalEntry::Agent { line, ending, .. }) => {
                write_raw(out, line, *ending)?;
            }
            (Printer::Raw, _) => {}
        }
        let Some(buffer) = self.on_terminal.as_ref().filter(|buffer| !buffer.is_empty()) else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(buffer);
        // A terminal gets a line end even if the agent wrote none: a shell prompt follows.
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let harmless = match self.printer {
            Printer::Json(_) => in_json(line),
            _ => on_one_line(line),
        };
        writeln!(self.out, "{harmless}")
    }
}

fn buffered(out: impl Write + 'static) -> BufWriter<impl Write> {
    BufWriter::with_capacity(64 * 1024, out)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use run_journal::{AgentLine, EventNumber, LineEnding, Redaction};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printed(form: Form, audience: Audience, line: &'static [u8]) -> Vec<u8> {
        printed_ending(form, audience, line, LineEnding::LineFeed)
    }

    fn printed_ending(
        form: Form,
        audience: Audience,
        line: &'static [u8],
        ending: LineEnding,
    ) -> Vec<u8> {
        let out = Shared::default();
        let mut printer =
            JournalPrinter::new(form, Box::new(out.clone()), audience, Width::Unlimited);
        let entry = JournalEntry::Agent {
            number: EventNumber { epoch: 1, seq: 1 },
            at: 0,
            line: AgentLine::Bytes(line),
            ending,
            redaction: Redaction::Untouched,
        };
        printer.print(&entry).unwrap();
        printer.finish().unwrap();
        out.0.lock().unwrap().clone()
    }

    #[test]
    fn raw_lines_are_exact_in_a_pipe_and_harmless_on_a_terminal() {
        let line = b"\x1b[2J\xff \xc2\x9b1m";
        assert_eq!(printed(Form::Raw, Audience::Program, line), b"\x1b[2J\xff \xc2\x9b1m\n");
        assert_eq!(
            String::from_utf8(printed(Form::Raw, Audience::Person, line)).unwrap(),
            "␛[2J\u{fffd} <U+009B>1m\n"
        );
    }

    #[test]
    fn an_unterminated_agent_line_stays_unterminated_for_a_program() {
        let printed = |audience| printed_ending(Form::Raw, audience, b"{\"ty", LineEnding::Missing);
        assert_eq!(printed(Audience::Program), b"{\"ty");
        assert_eq!(printed(Audience::Person), b"{\"ty\n");
        let json = printed_ending(Form::Json, Audience::Program, b"{\"ty", LineEnding::Missing);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["unterminated"], &json["reason"]), (&true.into(), &"cut_off".into()));
    }

    #[test]
    fn json_is_harmless_on_a_terminal_too() {
        let line = "{\"type\":\"\u{202e}\u{9b}\"}".as_bytes();
        let json = String::from_utf8(printed(Form::Json, Audience::Person, line)).unwrap();
        assert!(json.contains(r"\u202e\u009b"), "{json}");
        let exact = String::from_utf8(printed(Form::Json, Audience::Program, line)).unwrap();
        assert!(exact.contains("\u{202e}\u{9b}"), "{exact}");
    }

    #[test]
    fn the_outcome_is_remembered() {
        let mut printer = JournalPrinter::new(
            Form::Raw,
            Box::new(Shared::default()),
            Audience::Program,
            Width::Unlimited,
        );
        assert_eq!(printer.ended(), None);
        let entry = JournalEntry::Run {
            number: EventNumber { epoch: 1, seq: 1 },
            at: 0,
            event: RunEvent::Ended {
                outcome: RunOutcome::Cancelled,
                why: String::new(),
                exit_code: None,
                duration_ms: 0,
                stderr_tail: String::new(),
            },
            raw: "",
            redaction: Redaction::Untouched,
        };
        printer.print(&entry).unwrap();
        assert_eq!(printer.ended(), Some(&RunOutcome::Cancelled));
    }
}
