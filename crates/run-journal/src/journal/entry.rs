//! The entries that a reader of a journal gets.

use run_protocol::{JournalHeader, RunEvent};

use crate::{AgentLine, EventNumber, LineEnding, Redaction};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalEntry<'a> {
    /// The first line, or the first of a later epoch.
    Header(JournalHeader),
    /// A line that the agent printed.
    Agent {
        number: EventNumber,
        at: u64,
        line: AgentLine<'a>,
        ending: LineEnding,
        redaction: Redaction,
    },
    /// An event that the shim recorded. `raw` is its JSON text in the journal.
    Run { number: EventNumber, at: u64, event: RunEvent, raw: &'a str, redaction: Redaction },
    /// An event from a newer build, of a kind or shape that this build does not know.
    UnknownRun { number: EventNumber, at: u64, raw: &'a str },
    /// A line in an unknown format, for example because the disk is damaged or someone edited the file. If it is far
    /// too long, `bytes` has only its beginning.
    Unreadable { offset: u64, length: u64, bytes: &'a [u8] },
}

impl JournalEntry<'_> {
    /// The number of the event, if the line is one.
    pub fn number(&self) -> Option<EventNumber> {
        match self {
            Self::Agent { number, .. }
            | Self::Run { number, .. }
            | Self::UnknownRun { number, .. } => Some(*number),
            Self::Header(_) | Self::Unreadable { .. } => None,
        }
    }
}
