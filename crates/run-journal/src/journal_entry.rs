//! What a reader of a journal is given.

use run_protocol::{JournalHeader, RunEvent};

use crate::{AgentLine, EventNumber, LineEnding, Redaction};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalEntry<'a> {
    /// The first line, or the first of a later epoch.
    Header(JournalHeader),
    /// What the agent printed.
    Agent {
        number: EventNumber,
        at: u64,
        line: AgentLine<'a>,
        ending: LineEnding,
        redaction: Redaction,
    },
    /// What we say of the run. `raw` is the event as it stands in the journal: one JSON object.
    Run { number: EventNumber, at: u64, event: RunEvent, raw: &'a str, redaction: Redaction },
    /// An event of a kind or shape that this build does not know, from a newer one.
    UnknownRun { number: EventNumber, at: u64, raw: &'a str },
    /// A line that is not of this format: a damaged disk, or somebody's editor. Of one that is far over the ceiling only
    /// the first bytes are given.
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
