//! Reads a journal while it grows, from any position.

mod control_watch;
mod file_watch;
mod follower;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ground::plain_file;
use memchr::{memchr, memrchr};
use run_protocol::JOURNAL_VERSION;
use serde::Deserialize;

use crate::journal::line_parsing::{Line, Readable, parse_line};
use crate::journal::line_search::{self, read_piece};
use crate::{EventNumber, JournalEntry, Position, RunDirectory};

pub use follower::{Follower, Woken};

/// How much to read at once.
const CHUNK: usize = 256 * 1024;
/// Escaping makes a 16 MiB line of control characters six times as long.
const LINE_CEILING: usize = 128 * 1024 * 1024;
/// How much of a line above that limit the reader shows. No writer produces such a line.
const SHOWN_OF_OVERLONG: usize = 64 * 1024;

/// A reader of a journal. It needs no lock; any number of readers may read at once.
#[derive(Debug)]
pub struct JournalReader {
    file: File,
    /// The start of the next line.
    offset: u64,
    /// The file's bytes from `offset` on; the first `n_read` bytes are valid.
    buffer: Vec<u8>,
    n_read: usize,
    /// How much to read at once.
    chunk: usize,
    /// The event to start after; `None` once the reader has passed it.
    after: Option<EventNumber>,
}

/// The result of [`JournalReader::next_batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The reader passed entries on or skipped them; there may be more.
    Advanced,
    /// There is no further whole line yet.
    AtEnd,
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenJournalError {
    #[error("the journal could not be opened")]
    Open(#[source] io::Error),
    #[error("the journal has version {version}, which this build cannot read")]
    Newer { version: u32 },
}

impl JournalReader {
    /// Opens a run's journal. Reads only the part of a large journal around the position.
    pub fn open(directory: &RunDirectory, from: Position) -> Result<Self, OpenJournalError> {
        let file = plain_file::open(&directory.journal_path()).map_err(OpenJournalError::Open)?;
        Self::over(file, from)
    }

    /// Reads smaller pieces, for processes with many readers: each reader keeps a piece in memory.
    pub fn in_pieces_of(self, chunk: usize) -> Self {
        Self { chunk: chunk.clamp(1024, CHUNK), ..self }
    }

    pub(crate) fn over(file: File, from: Position) -> Result<Self, OpenJournalError> {
        check_version(&file)?;
        let offset = find_start(&file, from).map_err(OpenJournalError::Open)?;
        let after = match from {
            Position::After(number) => Some(number),
            Position::Start | Position::Tail(_) => None,
        };
        Ok(Self { file, offset, buffer: Vec::new(), n_read: 0, chunk: CHUNK, after })
    }

    /// Passes on the entries of the next piece of the file.
    pub fn next_batch(
        &mut self,
        on_entry: &mut dyn FnMut(JournalEntry<'_>),
    ) -> io::Result<Progress> {
        loop {
            let carried = self.n_read;
            if carried >= LINE_CEILING {
                return self.pass_overlong_line(on_entry);
            }
            if self.read_more()? == 0 {
                // The last line may be incomplete, and the next writer may cut and rewrite it: do not keep it.
                self.forget_rest();
                return Ok(Progress::AtEnd);
            }
            let Some(last) = memrchr(b'\n', &self.buffer[carried..self.n_read]) else { continue };
            if !self.is_still_there(carried)? {
                self.forget_rest();
                continue;
            }
            self.hand_on_lines(carried + last + 1, on_entry);
            return Ok(Progress::Advanced);
        }
    }

    fn read_more(&mut self) -> io::Result<usize> {
        if self.n_read == self.buffer.len() {
            self.resize_buffer((2 * self.n_read).max(self.chunk));
        }
        let place = self.offset + self.n_read as u64;
        loop {
            match self.file.read_at(&mut self.buffer[self.n_read..], place) {
                Ok(n_bytes) => {
                    self.n_read += n_bytes;
                    return Ok(n_bytes);
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
    }

    fn resize_buffer(&mut self, length: usize) {
        let mut buffer = vec![0; length];
        buffer[..self.n_read].copy_from_slice(&self.buffer[..self.n_read]);
        self.buffer = buffer;
    }

    fn forget_rest(&mut self) {
        self.n_read = 0;
        if self.buffer.len() > 4 * self.chunk {
            self.resize_buffer(self.chunk);
        }
    }

    /// Checks that the file still has the first piece of a line that was read in pieces. Between two reads, a new
    /// writer may have cut that incomplete line.
    fn is_still_there(&self, carried: usize) -> io::Result<bool> {
        let mut again = vec![0; carried.min(CHUNK)];
        let mut place = self.offset;
        for piece in self.buffer[..carried].chunks(CHUNK) {
            let end = place + piece.len() as u64;
            if read_piece(&self.file, &mut again, place, end)? != piece {
                return Ok(false);
            }
            place = end;
        }
        Ok(true)
    }

    /// Passes on the lines in the first `length` bytes of the buffer, and keeps the rest.
    fn hand_on_lines(&mut self, length: usize, on_entry: &mut dyn FnMut(JournalEntry<'_>)) {
        let mut start = 0;
        while let Some(line_length) = memchr(b'\n', &self.buffer[start..length]) {
            let line = &self.buffer[start..start + line_length];
            hand_on_line(line, self.offset + start as u64, &mut self.after, on_entry);
            start += line_length + 1;
        }
        self.offset += length as u64;
        self.buffer.copy_within(length..self.n_read, 0);
        self.n_read -= length;
        if self.buffer.len() > 4 * self.chunk && self.n_read < self.chunk {
            self.resize_buffer(self.chunk);
        }
    }

    fn pass_overlong_line(
        &mut self,
        on_entry: &mut dyn FnMut(JournalEntry<'_>),
    ) -> io::Result<Progress> {
        let shown = self.buffer[..SHOWN_OF_OVERLONG].to_vec();
        let searched_to = self.offset + self.n_read as u64;
        self.forget_rest();
        let Some(next) = line_search::next_line(&self.file, searched_to, u64::MAX)? else {
            return Ok(Progress::AtEnd);
        };
        if self.after.is_none() {
            let length = next - 1 - self.offset;
            on_entry(JournalEntry::Unreadable { offset: self.offset, length, bytes: &shown });
        }
        self.offset = next;
        Ok(Progress::Advanced)
    }
}

/// Refuses a journal with a newer version: this build may misunderstand its lines.
pub(crate) fn check_version(file: &File) -> Result<(), OpenJournalError> {
    match version_of(file).map_err(OpenJournalError::Open)? {
        Some(version) if version > JOURNAL_VERSION => Err(OpenJournalError::Newer { version }),
        _ => Ok(()),
    }
}

/// Passes one line on, unless it is before the position to start from.
pub(crate) fn hand_on_line(
    line: &[u8],
    offset: u64,
    after: &mut Option<EventNumber>,
    on_entry: &mut dyn FnMut(JournalEntry<'_>),
) {
    let parsed = parse_line(line);
    if let Some(target) = *after {
        match &parsed {
            Line::Event(event_line) if event_line.head.number < target => return,
            Line::Event(event_line) if event_line.head.number == target => {
                *after = None;
                return;
            }
            Line::Header(header) if header.epoch <= target.epoch => return,
            Line::Unreadable => return,
            Line::Event(_) | Line::Header(_) => *after = None,
        }
    }
    let readable = match parsed {
        Line::Header(header) => {
            on_entry(JournalEntry::Header(header));
            Readable::Yes
        }
        Line::Event(event_line) => event_line.hand_on(on_entry),
        Line::Unreadable => Readable::No,
    };
    if readable == Readable::No {
        on_entry(JournalEntry::Unreadable { offset, length: line.len() as u64, bytes: line });
    }
}

fn find_start(file: &File, from: Position) -> io::Result<u64> {
    if from == Position::Start {
        return Ok(0);
    }
    let end = line_search::end_of_whole_lines(file, file.metadata()?.len())?;
    match from {
        Position::Start => Ok(0),
        Position::After(number) => line_search::near_number(file, end, number),
        Position::Tail(n_lines) => line_search::start_of_tail(file, end, n_lines),
    }
}

/// The version in the first line; `None` if that line cannot be read.
fn version_of(file: &File) -> io::Result<Option<u32>> {
    #[derive(Deserialize)]
    struct Version {
        journal: u32,
    }
    let mut buffer = [0; line_search::HEADER_LENGTH];
    let line = line_search::beginning_of_line(file, &mut buffer, 0)?;
    Ok(serde_json::from_slice(line).ok().map(|version: Version| version.journal))
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
