//! `caretaker parse`: reads a saved or piped stream, and prints it as text or JSON.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::words::talk::note;
use agent_stream::{AgentEvent, AgentStream, StreamLine, StreamSummary};
use run_protocol::ExitCode;
use serde::Serialize;

use crate::data_out::Data;
use crate::view::run::stream_view::StreamView;
use crate::view::run::summary_view;
use crate::view::width::Width;

/// Read cursor-agent's stream-json output from a file or a pipe.
///
/// Prints it as readable text, as typed events, as the text of the answer alone, or as a summary. Lines that are not
/// JSON and events of unknown kinds are counted on stderr; they are never an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cursor-agent -p --output-format stream-json 'say hi' < /dev/null | caretaker parse
  caretaker parse run.ndjson --summary
  caretaker parse run.ndjson --json | jq 'select(.kind == \"tool_completed\") | .name'
  caretaker parse run.ndjson --text > answer.md")]
pub(crate) struct Args {
    /// The file to read; `-` or nothing means stdin.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object per line of input; with --summary, the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Print only the text of the answer, each piece once.
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    text: bool,
    /// Print a summary: session, model, tools, text, usage, unknown and malformed lines.
    #[arg(long)]
    summary: bool,
}

/// Big enough that system calls cost little, small enough to stay in cache.
const CHUNK: usize = 256 * 1024;

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let mut reading = Reading {
        input: open(args.file.as_deref())?,
        stream: AgentStream::default(),
        summary: StreamSummary::default(),
    };
    match (args.summary, args.json, args.text) {
        (true, true, _) => reading.summarise(&mut Data::of_stdout(), Data::json)?,
        (true, false, _) => reading.summarise(&mut view_out(), summary_view::print)?,
        (false, true, _) => reading.print_events(&mut Data::of_stdout())?,
        (false, false, true) => reading.print_text(&mut Data::of_stdout())?,
        (false, false, false) => reading.print_view(&mut view_out())?,
    }
    if !args.summary {
        say_what_was_odd(&reading.summary);
    }
    Ok(ExitCode::Success)
}

/// A stream and its summary so far.
struct Reading {
    input: Box<dyn Read>,
    stream: AgentStream,
    summary: StreamSummary,
}

impl Reading {
    fn summarise<W: Write>(
        &mut self,
        out: &mut W,
        print: impl FnOnce(&mut W, &StreamSummary) -> io::Result<()>,
    ) -> Result<(), CommandError> {
        self.read_all(out, |_, _, _| Ok(()))?;
        print(out, &self.summary).and_then(|()| out.flush()).map_err(CommandError::writing)
    }

    fn print_events(&mut self, out: &mut Data) -> Result<(), CommandError> {
        self.read_all(out, |out, line, adds| match line {
            Some(line) => out.json(&EventLine { line: line.number, event: &line.event, adds }),
            None => Ok(()),
        })
    }

    fn print_text(&mut self, out: &mut Data) -> Result<(), CommandError> {
        let mut ends_with_line_feed = true;
        self.read_all(out, |out, _, text| {
            ends_with_line_feed = text.is_empty() && ends_with_line_feed || text.ends_with('\n');
            out.text(text)
        })?;
        let end = if ends_with_line_feed { "" } else { "\n" };
        out.text(end).and_then(|()| out.flush()).map_err(CommandError::writing)
    }

    fn print_view(&mut self, out: &mut impl Write) -> Result<(), CommandError> {
        let mut view = StreamView::new(Width::of_stdout());
        self.read_all(out, |out, line, text| match line {
            Some(line) => view.show(out, line, text),
            None if text.is_empty() => Ok(()),
            None => view.show_text(out, text),
        })?;
        view.end(out).and_then(|()| out.flush()).map_err(CommandError::writing)
    }

    /// Reads to the end, and flushes the output before each wait for more input. `on_line` gets each line with the text
    /// that it adds to the answer. At the end it gets the text that was held back, with no line.
    fn read_all<W: Write>(
        &mut self,
        out: &mut W,
        mut on_line: impl FnMut(&mut W, Option<&StreamLine<'_>>, &str) -> io::Result<()>,
    ) -> Result<(), CommandError> {
        let Self { input, stream, summary } = self;
        let mut chunk = vec![0; CHUNK];
        let mut written = Ok(());
        let mut adds = String::new();
        let mut take = |line: StreamLine<'_>, out: &mut W, written: &mut io::Result<()>| {
            adds.clear();
            summary.observe(&line, &mut |piece| adds.push_str(piece));
            if written.is_ok() {
                *written = on_line(out, Some(&line), &adds);
            }
        };
        loop {
            let length = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(CommandError::new(
                        ExitCode::Failed,
                        "cannot read the rest of the stream",
                    )
                    .because(error));
                }
            };
            stream.feed(&chunk[..length], |line| take(line, out, &mut written));
            written = written.and_then(|()| out.flush());
            if written.is_err() {
                break;
            }
        }
        stream.finish(|line| take(line, out, &mut written));
        let mut held = String::new();
        summary.finish(stream.open_calls(), &mut |piece| held.push_str(piece));
        written.and_then(|()| on_line(out, None, &held)).map_err(CommandError::writing)
    }
}

/// stdout for text: colours only on a terminal, or with `--color`.
fn view_out() -> impl Write {
    io::BufWriter::with_capacity(64 * 1024, anstream::stdout().lock())
}

/// One line of `--json` output.
#[derive(Serialize)]
struct EventLine<'a> {
    /// The line number in the input, counted from one.
    line: u64,
    #[serde(flatten)]
    event: &'a AgentEvent<'a>,
    /// The text that the event adds to the answer, without repetitions.
    #[serde(skip_serializing_if = "str::is_empty")]
    adds: &'a str,
}

fn open(file: Option<&Path>) -> Result<Box<dyn Read>, CommandError> {
    let Some(path) = file.filter(|path| *path != Path::new("-")) else {
        if io::stdin().is_terminal() {
            note("reading the stream from the terminal; end it with Ctrl-D");
        }
        return Ok(Box::new(io::stdin().lock()));
    };
    let cannot = |error: io::Error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => ExitCode::NotFound,
            _ => ExitCode::Failed,
        };
        CommandError::new(code, format!("cannot read the stream `{}`", path.display()))
            .because(error)
            .hint("name a file with cursor-agent's stream-json output, or pipe it in")
    };
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(cannot(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok(Box::new(file))
}

fn say_what_was_odd(summary: &StreamSummary) {
    for oddity in summary_view::oddities(summary) {
        note(&oddity);
    }
}
