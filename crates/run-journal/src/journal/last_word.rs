//! The last line of a journal: it decides what Caretaker may do with the run.

use std::fs::File;
use std::io;

use run_protocol::RunEvent;

use crate::JournalEntry;
use crate::journal::line_parsing::{Line, parse_line};
use crate::journal::line_search;

/// The longest field in a run's last event is the end of stderr, which is far shorter.
const ENDED_LIMIT: usize = 8 * 1024 * 1024;
/// The lines before a shim starts are much shorter.
const QUEUED_LIMIT: u64 = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWord {
    Ended,
    Queued,
    Other,
}

/// Reads the last whole line, which ends at `end`.
pub(crate) fn last_word(file: &File, end: u64) -> io::Result<LastWord> {
    let start = line_search::start_of_line(file, end)?;
    let length = usize::try_from(end - start).unwrap_or(usize::MAX);
    if length > ENDED_LIMIT {
        return Ok(LastWord::Other);
    }
    let mut buffer = vec![0; length];
    let line = line_search::beginning_of_line(file, &mut buffer, start)?;
    let mut word = LastWord::Other;
    if let Line::Event(event_line) = parse_line(line) {
        event_line.hand_on(&mut |entry| {
            word = match entry {
                JournalEntry::Run { event: RunEvent::Ended { .. }, .. } => LastWord::Ended,
                JournalEntry::Run { event: RunEvent::Queued { .. }, .. } => LastWord::Queued,
                _ => LastWord::Other,
            };
        });
    }
    Ok(word)
}

/// True if the last line of a journal says that the run is waiting in the queue.
pub(crate) fn is_queued(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    if length > QUEUED_LIMIT {
        return Ok(false);
    }
    let end = line_search::end_of_whole_lines(file, length)?;
    Ok(last_word(file, end)? == LastWord::Queued)
}
