//! The public form of events: `tail --json` and `run --json` print one JSON object per line.
//!
//! ```text
//!   {"v":1,"seq":17,"epoch":1,"at":1790000000123,"kind":"agent.tool_completed", …}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `v` | version of this format; a version may gain fields, but none is renamed, removed or changed in meaning |
//! | `seq`, `epoch` | the event's number; `tail --since EPOCH:SEQ` continues after it |
//! | `at` | when it was journalled, in milliseconds since 1970 |
//! | `kind` | `agent.…` for a line from the agent, `run.…` for a run event, `net.…` for an attempt to use the network, `journal.unreadable` for damage |
//! | `unterminated` | `true` if the agent's output ended in the middle of the line |
//! | `redacted` | `true` if a known secret was replaced |
//!
//! The other fields belong to the kind; `fixtures/events/schema-v1.jsonl` has an example of each. A reader must expect
//! unknown kinds and fields. An event does not depend on the events before it, so it looks the same wherever a reader
//! begins.
//!
//! **Invariant:** each journal entry becomes one line.

mod schema;

use std::io::{self, Write};

use agent_stream::{LineParser, RawLine};
use run_journal::{AgentLine, EventNumber, JournalEntry, LineEnding, Redaction};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub use schema::PublicEvent;

/// The version of the public form.
pub const VERSION: u32 = 1;

/// Writes entries in the public form.
#[derive(Debug, Default)]
pub struct EventWriter {
    parser: LineParser,
    /// The common fields. The buffer is reused from line to line.
    head: Vec<u8>,
    /// The event's own fields. The buffer is reused from line to line.
    body: Vec<u8>,
}

impl EventWriter {
    pub fn write(&mut self, out: &mut dyn Write, entry: &JournalEntry<'_>) -> io::Result<()> {
        match entry {
            // Each event already carries the header's facts.
            JournalEntry::Header(_) => Ok(()),
            JournalEntry::Agent { number, at, line, ending, redaction } => {
                self.body.clear();
                let event = self.parser.parse(as_raw_line(line, *ending));
                serde_json::to_writer(&mut self.body, &event)?;
                let redacted = *redaction == Redaction::Redacted;
                let unterminated = *ending == LineEnding::Missing;
                let envelope = Envelope { redacted, unterminated, ..Envelope::new(*number, *at) };
                self.write_line(out, &envelope, "agent.")
            }
            JournalEntry::Run { number, at, event, redaction, .. } => {
                self.body.clear();
                serde_json::to_writer(&mut self.body, event)?;
                let redacted = *redaction == Redaction::Redacted;
                let envelope = Envelope { redacted, ..Envelope::new(*number, *at) };
                self.write_line(out, &envelope, "run.")
            }
            JournalEntry::UnknownRun { number, at, raw } => {
                self.body.clear();
                self.body.extend_from_slice(raw.as_bytes());
                self.write_line(out, &Envelope::new(*number, *at), "run.")
            }
            JournalEntry::Unreadable { offset, length, bytes } => {
                let text = String::from_utf8_lossy(bytes);
                serde_json::to_writer(
                    &mut *out,
                    &Unreadable {
                        v: VERSION,
                        kind: "journal.unreadable",
                        offset: *offset,
                        length: *length,
                        text: &text,
                    },
                )?;
                out.write_all(b"\n")
            }
        }
    }

    /// Writes the common fields, then the event's own fields. The kind comes first, after its family.
    fn write_line(
        &mut self,
        out: &mut dyn Write,
        envelope: &Envelope,
        family: &str,
    ) -> io::Result<()> {
        self.head.clear();
        serde_json::to_writer(&mut self.head, envelope)?;
        // The event's own fields follow in the same object.
        self.head.pop();
        out.write_all(&self.head)?;
        out.write_all(b",")?;
        match self.body.strip_prefix(b"{\"kind\":\"") {
            Some(rest) => {
                // Network events have their own family.
                let family = if rest.starts_with(b"net.") { "" } else { family };
                write!(out, "\"kind\":\"{family}")?;
                out.write_all(rest)?;
            }
            // An event from a newer version might not begin with its kind.
            None => {
                let raw = serde_json::from_slice::<&RawValue>(&self.body)?;
                write!(out, "\"kind\":\"{family}unknown\",\"raw\":{raw}}}")?;
            }
        }
        out.write_all(b"\n")
    }
}

/// The fields of every event.
#[derive(Serialize, ToSchema)]
#[schema(as = EventEnvelope)]
pub(crate) struct Envelope {
    /// The version of this format. A version may gain fields, but none is renamed, removed or changed in meaning.
    v: u32,
    /// The event's number within its epoch.
    seq: u64,
    /// The epoch, counted from one. A new epoch begins when a journal is reopened after its writer died.
    epoch: u32,
    /// When it was journalled, in milliseconds since 1970.
    at: u64,
    /// True if Caretaker replaced a known secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    /// True if the agent's output ended in the middle of the line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unterminated: bool,
}

impl Envelope {
    fn new(number: EventNumber, at: u64) -> Self {
        let EventNumber { epoch, seq } = number;
        Self { v: VERSION, seq, epoch, at, redacted: false, unterminated: false }
    }
}

/// A place in the journal that cannot be read.
#[derive(Serialize, ToSchema)]
#[schema(as = UnreadableEvent)]
pub(crate) struct Unreadable<'a> {
    /// The version of this format.
    v: u32,
    /// `journal.unreadable`.
    #[schema(pattern = r"^journal\.unreadable$")]
    kind: &'static str,
    /// Its byte offset in the journal.
    offset: u64,
    /// Its length in bytes.
    length: u64,
    /// Its content as text; bytes that are not UTF-8 are replaced.
    text: &'a str,
}

/// Converts a journal line into the input of the stream parser.
pub fn as_raw_line<'a>(line: &AgentLine<'a>, ending: LineEnding) -> RawLine<'a> {
    let bytes = match *line {
        AgentLine::Json(bytes) | AgentLine::Bytes(bytes) => bytes,
        AgentLine::Text(text) => text.as_bytes(),
        AgentLine::Cut { head, length, sha256 } => {
            return RawLine::Oversized { head, length, sha256 };
        }
    };
    match ending {
        LineEnding::LineFeed => RawLine::Whole(bytes),
        LineEnding::Missing => RawLine::Unterminated(bytes),
    }
}

/// Writes a line as the agent wrote it. For a cut line, writes the part that the journal kept.
pub fn write_raw(out: &mut dyn Write, line: &AgentLine<'_>, ending: LineEnding) -> io::Result<()> {
    out.write_all(as_raw_line(line, ending).bytes())?;
    match ending {
        LineEnding::LineFeed => out.write_all(b"\n"),
        LineEnding::Missing => Ok(()),
    }
}

#[cfg(test)]
#[path = "event_schema_tests.rs"]
mod tests;
