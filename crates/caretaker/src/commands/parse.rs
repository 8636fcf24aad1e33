//! `caretaker parse`: reads a saved or piped stream and prints it for a person or for a program.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use agent_stream::{AgentEvent, AgentStream, StreamLine, StreamSummary};
use serde::Serialize;

use crate::command_error::{CommandError, ErrorKind};
use crate::view::stream_view::StreamView;
use crate::view::summary_view;

/// Read a stream-json transcript of cursor-agent: a file, or a pipe.
///
/// Prints it for a person, or, on request, as typed events, as the answer's text alone, or as a summary. Lines that are
/// no JSON and events of unknown kinds are counted and reported on stderr; they are never an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cursor-agent -p --output-format stream-json 'say hi' < /dev/null | caretaker parse
  caretaker parse run.ndjson --summary
  caretaker parse run.ndjson --json | jq 'select(.kind == \"tool_completed\") | .name'
  caretaker parse run.ndjson --text > answer.md")]
pub(crate) struct Args {
    /// The file to read; `-` or nothing reads stdin.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON object per line of input; with --summary, the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the assembled text of the answer, each piece once.
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    text: bool,
    /// Print what the stream amounted to: session, model, tools, text, usage, unknown and malformed lines.
    #[arg(long)]
    summary: bool,
}

/// Big enough that a system call per chunk costs nothing, small enough to stay in cache.
const CHUNK: usize = 256 * 1024;

pub(crate) fn run(args: &Args) -> Result<(), CommandError> {
    let mut input = open(args.file.as_deref())?;
    let mut stdout = io::BufWriter::with_capacity(64 * 1024, anstream::stdout().lock());
    let mut stream = AgentStream::default();
    let mut summary = StreamSummary::default();
    let out = &mut stdout;
    match (args.summary, args.json, args.text) {
        (true, json, _) => {
            read_all(&mut input, &mut stream, out, |line, _| {
                summary.observe(line, &mut |_| {});
                Ok(())
            })?;
            summary.finish(stream.open_calls());
            if json { print_json(out, &summary) } else { summary_view::print(out, &summary) }
                .map_err(CommandError::writing)?;
            return out.flush().map_err(CommandError::writing);
        }
        (false, true, _) => read_all(&mut input, &mut stream, out, |line, out| {
            let mut adds = String::new();
            summary.observe(line, &mut |piece| adds.push_str(piece));
            print_json(out, &EventLine { line: line.number, event: &line.event, adds })
        })?,
        (false, false, true) => {
            let mut ends_with_line_feed = true;
            read_all(&mut input, &mut stream, out, |line, out| {
                let mut written = Ok(());
                summary.observe(line, &mut |piece| {
                    ends_with_line_feed = piece.ends_with('\n');
                    if written.is_ok() {
                        written = print_text(out, piece);
                    }
                });
                written
            })?;
            if !ends_with_line_feed {
                out.write_all(b"\n").map_err(CommandError::writing)?;
            }
        }
        (false, false, false) => {
            let mut view = StreamView::new();
            read_all(&mut input, &mut stream, out, |line, out| {
                let mut pieces = String::new();
                summary.observe(line, &mut |piece| pieces.push_str(piece));
                view.show(out, line, &pieces)
            })?;
            view.end(out).map_err(CommandError::writing)?;
        }
    }
    out.flush().map_err(CommandError::writing)?;
    summary.finish(stream.open_calls());
    say_what_was_odd(&summary);
    Ok(())
}

/// One line of `--json` output.
#[derive(Serialize)]
struct EventLine<'a> {
    /// The line of the input, counted from one.
    line: u64,
    #[serde(flatten)]
    event: &'a AgentEvent<'a>,
    /// What the event adds to the answer's text, repetitions left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    adds: String,
}

fn open(file: Option<&Path>) -> Result<Box<dyn Read>, CommandError> {
    let Some(path) = file.filter(|path| *path != Path::new("-")) else {
        if io::stdin().is_terminal() {
            say("reading the stream from the terminal; end it with Ctrl-D");
        }
        return Ok(Box::new(io::stdin().lock()));
    };
    let cannot = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Failed,
        };
        CommandError::new(kind, format!("the stream `{}` cannot be read", path.display()))
            .because(error)
            .hint("name a file that holds cursor-agent's stream-json output, or pipe it in")
    };
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(cannot(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok(Box::new(file))
}

/// Reads to the end, and makes what was written visible before each wait for more input.
fn read_all<W: Write>(
    input: &mut dyn Read,
    stream: &mut AgentStream,
    out: &mut W,
    mut on_line: impl FnMut(&StreamLine<'_>, &mut W) -> io::Result<()>,
) -> Result<(), CommandError> {
    let mut chunk = vec![0; CHUNK];
    let mut written = Ok(());
    loop {
        let length = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(
                    CommandError::new(ErrorKind::Failed, "the stream broke off").because(error)
                );
            }
        };
        stream.feed(&chunk[..length], |line| {
            if written.is_ok() {
                written = on_line(&line, out);
            }
        });
        written = written.and_then(|()| out.flush());
        if written.is_err() {
            break;
        }
    }
    stream.finish(|line| {
        if written.is_ok() {
            written = on_line(&line, out);
        }
    });
    written.map_err(CommandError::writing)
}

fn print_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The answer as it is where a program reads it, made harmless where a terminal does.
fn print_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() {
        out.write_all(crate::view::safe_text::on_lines(text).as_bytes())
    } else {
        out.write_all(text.as_bytes())
    }
}

fn say_what_was_odd(summary: &StreamSummary) {
    for note in summary_view::oddities(summary) {
        say(&note);
    }
}

fn say(note: &str) {
    // Talk is lost without harm where stderr is closed.
    writeln!(anstream::stderr(), "note: {note}").ok();
}
