//! Appends numbered lines to a journal, one write per batch.

mod background_sync;
mod reserve;

#[cfg(test)]
pub(crate) mod crash_tests;
#[cfg(test)]
pub(crate) mod disk_full_tests;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use ground::now_ms;
use ground::plain_file;
use memchr::{memchr_iter, memrchr};
use run_protocol::{Epoch, JOURNAL_VERSION, JournalHeader, RunEvent};

use self::background_sync::BackgroundSync;
use self::reserve::Reserve;
use crate::journal::last_word::{LastWord, last_word};
use crate::journal::line_parsing::{Line, parse_line};
use crate::journal::{line_encoding, line_search};
use crate::{AgentLine, EventNumber, LineEnding, Redaction, RunDirectory, RunLock, boot_id};

/// The capacity that the batch keeps after a huge line.
const BUFFER_KEPT: usize = 1024 * 1024;

/// The one writer of a journal. It collects lines in memory; [`flush`](Self::flush) gives them to the kernel, where
/// readers see them.
#[derive(Debug)]
pub struct JournalWriter {
    file: Arc<File>,
    /// Where readers find the journal.
    path: PathBuf,
    /// Lines that are not written yet, each with its line feed.
    batch: Vec<u8>,
    /// Where the batch goes: after the last whole line.
    end: u64,
    /// The last event that readers can see.
    visible: EventNumber,
    /// The last event that has a number.
    numbered: EventNumber,
    reserve: Reserve,
    sync: BackgroundSync,
    /// Keeps other processes from writing.
    _lock: RunLock,
}

/// Why a journal cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Lines that did not fit are still in memory; the caller may call `flush` again.
    #[error("there is no space left for the journal")]
    DiskFull {
        #[source]
        source: io::Error,
    },
    #[error("the journal could not be written")]
    Write(#[source] io::Error),
    /// A power failure may lose lines that readers have seen.
    #[error("the journal could not be made durable")]
    Sync(#[source] io::Error),
    /// Another process deleted or moved the journal or a directory above it. No reader would find new lines.
    #[error("the journal was moved or deleted")]
    Gone,
    #[error("the journal could not be opened")]
    Open(#[source] io::Error),
    #[error("the journal has no readable header")]
    Damaged,
    #[error("the journal has version {version}, which this build does not write")]
    OtherVersion { version: u32 },
    #[error("the lock belongs to another run")]
    ForeignLock,
    #[error("the run has ended")]
    Ended,
}

impl JournalWriter {
    /// Continues a journal: cuts an incomplete last line, reserves space, and begins a new epoch unless the journal has
    /// only the lines from its creation.
    pub fn open(directory: &RunDirectory, lock: &RunLock) -> Result<Self, JournalError> {
        if lock.run_id() != directory.run_id() {
            return Err(JournalError::ForeignLock);
        }
        let path = directory.journal_path();
        let file = plain_file::open_writable(&path).map_err(JournalError::Open)?;
        let first = read_first_header(&file)?;
        if first.journal != JOURNAL_VERSION {
            return Err(JournalError::OtherVersion { version: first.journal });
        }
        let found = FoundTail::of(&file).map_err(JournalError::Open)?;
        if found.last_word == LastWord::Ended {
            return Err(JournalError::Ended);
        }
        if found.length > found.end {
            file.set_len(found.end).map_err(JournalError::Open)?;
        }
        let reserve = Reserve::behind(&file, found.end).map_err(write_error)?;
        let file = Arc::new(file);
        let sync = BackgroundSync::start(Arc::clone(&file), surroundings(directory))
            .map_err(JournalError::Open)?;
        let mut writer = Self {
            file,
            path,
            batch: Vec::new(),
            end: found.end,
            visible: found.last,
            numbered: found.last,
            reserve,
            sync,
            _lock: lock.clone(),
        };
        if found.needs_new_epoch(&first) {
            writer.begin_epoch(found.last.epoch + 1, directory)?;
        }
        Ok(writer)
    }

    fn begin_epoch(&mut self, epoch: Epoch, directory: &RunDirectory) -> Result<(), JournalError> {
        let header = JournalHeader {
            journal: JOURNAL_VERSION,
            run: directory.run_id(),
            epoch,
            at: now_ms(),
            boot: boot_id(),
        };
        line_encoding::push_header(&mut self.batch, &header);
        self.flush()?;
        self.visible.epoch = epoch;
        self.numbered.epoch = epoch;
        // This must survive a power failure before any reader sees a number of this epoch.
        self.sync_now()
    }

    /// Adds a line that the agent printed to the batch.
    pub fn agent_line(
        &mut self,
        at_ms: u64,
        line: AgentLine<'_>,
        ending: LineEnding,
        redaction: Redaction,
    ) -> EventNumber {
        self.numbered.seq += 1;
        let (batch, number) = (&mut self.batch, self.numbered);
        line_encoding::push_agent_line(batch, number, at_ms, line, ending, redaction);
        number
    }

    /// Adds an event that the shim recorded to the batch.
    pub fn event(&mut self, at_ms: u64, event: &RunEvent, redaction: Redaction) -> EventNumber {
        self.numbered.seq += 1;
        line_encoding::push_event(&mut self.batch, self.numbered, at_ms, event, redaction);
        self.numbered
    }

    /// Checks that readers still find the journal at its path.
    pub fn check_place(&self) -> Result<(), JournalError> {
        let identity = |found: &fs::Metadata| (found.dev(), found.ino());
        let own = self.file.metadata().map_err(JournalError::Write)?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if identity(&found) == identity(&own) => Ok(()),
            Ok(_) => Err(JournalError::Gone),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Err(JournalError::Gone),
            Err(err) => Err(JournalError::Write(err)),
        }
    }

    /// The number of bytes that are waiting for [`flush`](Self::flush).
    pub fn pending_bytes(&self) -> usize {
        self.batch.len()
    }

    /// The journal's length, without the lines that are waiting for [`flush`](Self::flush).
    pub fn length(&self) -> u64 {
        self.end
    }

    /// The last event that readers can see.
    pub fn visible(&self) -> EventNumber {
        self.visible
    }

    /// Writes the batch in one write, and returns the number of the last event that readers can see.
    ///
    /// If it fails, readers see only whole lines. Lines of the batch that fit are written; the others stay in the
    /// batch.
    pub fn flush(&mut self) -> Result<EventNumber, JournalError> {
        if !self.batch.is_empty() {
            self.write_batch()?;
        }
        self.sync.check().map_err(JournalError::Sync)?;
        Ok(self.visible)
    }

    fn write_batch(&mut self) -> Result<(), JournalError> {
        let batch_end = self.end + self.batch.len() as u64;
        self.reserve.make_room(&self.file, batch_end).map_err(write_error)?;
        let (n_written, failure) = write_at(&self.file, &self.batch, self.end);
        let whole = match failure {
            None => n_written,
            Some(_) => memrchr(b'\n', &self.batch[..n_written]).map_or(0, |last| last + 1),
        };
        self.end += whole as u64;
        self.batch.drain(..whole);
        self.batch.shrink_to(BUFFER_KEPT);
        let n_pending = memchr_iter(b'\n', &self.batch).count() as u64;
        self.visible.seq = self.numbered.seq - n_pending;
        let Some(failure) = failure else { return Ok(()) };
        if n_written > whole {
            // If this fails too, the next write overwrites the rest, or the next writer cuts it.
            self.reserve.cut(&self.file, self.end).ok();
        }
        Err(write_error(failure))
    }

    /// Drops the unwritten lines, frees their numbers, and returns how many lines it dropped.
    pub fn discard_pending(&mut self) -> u64 {
        let n_discarded = self.numbered.seq - self.visible.seq;
        self.batch = Vec::new();
        self.numbered = self.visible;
        n_discarded
    }

    /// From now on lines may use the reserved 8 MiB. Only for closing events, because there is no second reserve. The
    /// writer writes pending lines first; if there are too many, discard them.
    pub fn use_reserve(&mut self) {
        self.reserve.open();
    }

    /// Makes everything that was flushed durable within a second, without waiting for it.
    pub fn sync_soon(&self) {
        self.sync.wrote();
    }

    /// Starts making everything that was flushed durable, without waiting for it.
    pub fn begin_sync(&self) {
        self.sync.wrote();
        self.sync.hurry();
    }

    /// Waits until everything that was flushed is durable. After one failure it always fails: the kernel reports a
    /// failed write-back once and then forgets it.
    pub fn sync_now(&mut self) -> Result<(), JournalError> {
        self.sync.wrote();
        self.sync.wait().map_err(JournalError::Sync)
    }

    /// Flushes, makes everything durable, and frees the reserved space.
    pub fn finish(mut self) -> Result<EventNumber, JournalError> {
        let last = self.flush()?;
        self.sync_now()?;
        Ok(last)
    }
}

impl Drop for JournalWriter {
    /// Writes as much as it can. To find out whether that worked, call [`JournalWriter::finish`] instead.
    fn drop(&mut self) {
        if !self.batch.is_empty() && self.flush().is_ok() {
            self.sync.wrote();
        }
        self.reserve.cut(&self.file, self.end).ok();
    }
}

/// The end of a journal, as a new writer finds it.
struct FoundTail {
    /// The length of the file.
    length: u64,
    /// The end of its last whole line.
    end: u64,
    /// The last number, in the epoch of the last line.
    last: EventNumber,
    last_word: LastWord,
}

impl FoundTail {
    fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let end = line_search::end_of_whole_lines(file, length)?;
        let last = line_search::last_number(file, end)?;
        Ok(Self { length, end, last, last_word: last_word(file, end)? })
    }

    /// If the journal has more than `created`, an earlier writer wrote to it. After a power failure, lines that readers
    /// have seen may be gone without a trace.
    fn needs_new_epoch(&self, first: &JournalHeader) -> bool {
        let restarted = match (&first.boot, boot_id()) {
            (Some(then), Some(now)) => *then != now,
            _ => false,
        };
        // The process that makes the directory writes `queued` together with `created`.
        let n_at_creation = if self.last_word == LastWord::Queued { 2 } else { 1 };
        self.last > EventNumber { epoch: EventNumber::FIRST_EPOCH, seq: n_at_creation }
            || self.length > self.end
            || restarted
    }
}

fn read_first_header(file: &File) -> Result<JournalHeader, JournalError> {
    let mut buffer = [0; line_search::HEADER_LENGTH];
    let line = line_search::beginning_of_line(file, &mut buffer, 0).map_err(JournalError::Open)?;
    match parse_line(line) {
        Line::Header(header) => Ok(header),
        Line::Event(_) | Line::Unreadable => Err(JournalError::Damaged),
    }
}

/// The files that must be durable so that a reader can find and understand the journal.
fn surroundings(directory: &RunDirectory) -> Vec<PathBuf> {
    let path = directory.path();
    let parent = path.parent().unwrap_or(path);
    vec![directory.spec_path(), directory.prompt_path(), path.to_owned(), parent.to_owned()]
}

/// Returns how many bytes it wrote, and the error if that is not all of them.
fn write_at(file: &File, bytes: &[u8], place: u64) -> (usize, Option<io::Error>) {
    let mut n_written = 0;
    while n_written < bytes.len() {
        match file.write_at(&bytes[n_written..], place + n_written as u64) {
            Ok(0) => return (n_written, Some(io::ErrorKind::WriteZero.into())),
            Ok(n_bytes) => n_written += n_bytes,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return (n_written, Some(err)),
        }
    }
    (n_written, None)
}

fn write_error(err: io::Error) -> JournalError {
    if plain_file::is_out_of_space(&err) {
        JournalError::DiskFull { source: err }
    } else {
        JournalError::Write(err)
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
