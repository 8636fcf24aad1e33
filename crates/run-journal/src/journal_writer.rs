//! Appending to a journal: numbered lines, one write per batch.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use ground::now_ms;
use ground::plain_file;
use memchr::{memchr_iter, memrchr};
use run_protocol::{Epoch, JOURNAL_VERSION, JournalHeader, RunEvent};

use crate::background_sync::BackgroundSync;
use crate::clock::boot_id;
use crate::last_word::{LastWord, last_word};
use crate::line_parsing::{Line, parse_line};
use crate::reserve::Reserve;
use crate::{AgentLine, EventNumber, Redaction, RunDirectory, RunLock, line_encoding, line_search};

/// What the batch's buffer keeps when a huge line has passed through it.
const BUFFER_KEPT: usize = 1024 * 1024;

/// The one writer of a journal. Lines are gathered in memory; with [`flush`](Self::flush) they reach the kernel, and so
/// the readers.
#[derive(Debug)]
pub struct JournalWriter {
    file: Arc<File>,
    /// Where readers look for it.
    path: PathBuf,
    /// Lines that the kernel does not have yet, each with its line feed.
    batch: Vec<u8>,
    /// Where the batch goes: behind the last whole line.
    end: u64,
    /// The last event that readers can see.
    visible: EventNumber,
    /// The last event that was given a number.
    numbered: EventNumber,
    reserve: Reserve,
    sync: BackgroundSync,
    /// Nobody else may write while this lives.
    _lock: RunLock,
}

/// Says why a journal cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Lines that did not fit are still in memory: `flush` may be tried again.
    #[error("there is no space left for the journal")]
    DiskFull {
        #[source]
        source: io::Error,
    },
    #[error("the journal could not be written")]
    Write(#[source] io::Error),
    /// What readers saw may be lost in a power failure.
    #[error("the journal could not be made durable")]
    Sync(#[source] io::Error),
    /// It was deleted or moved away, or so was a directory around it: what is written no reader will find.
    #[error("the journal is not where it was")]
    Gone,
    #[error("the journal could not be opened")]
    Open(#[source] io::Error),
    #[error("the journal has no readable header")]
    Damaged,
    #[error("the journal is of version {version}, which this build does not write")]
    OtherVersion { version: u32 },
    #[error("the lock is another run's")]
    ForeignLock,
    /// Nothing comes after the end.
    #[error("the run has ended")]
    Ended,
}

impl JournalWriter {
    /// Continues a journal: cuts a torn last line, sets the reserve aside, and begins a new epoch unless nobody wrote
    /// since the journal was created.
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
        // Before anybody sees a number of this epoch, no power failure may make us forget that it began.
        self.sync_now()
    }

    /// Adds a line of the agent's to the batch.
    pub fn agent_line(
        &mut self,
        at_ms: u64,
        line: AgentLine<'_>,
        redaction: Redaction,
    ) -> EventNumber {
        self.numbered.seq += 1;
        line_encoding::push_agent_line(&mut self.batch, self.numbered, at_ms, line, redaction);
        self.numbered
    }

    /// Adds the agent's last line to the batch, if its output ended in the middle of it.
    pub fn unterminated_agent_line(
        &mut self,
        at_ms: u64,
        line: AgentLine<'_>,
        redaction: Redaction,
    ) -> EventNumber {
        self.numbered.seq += 1;
        let (batch, number) = (&mut self.batch, self.numbered);
        line_encoding::push_unterminated_agent_line(batch, number, at_ms, line, redaction);
        number
    }

    /// Adds an event of ours to the batch.
    pub fn event(&mut self, at_ms: u64, event: &RunEvent) -> EventNumber {
        self.numbered.seq += 1;
        let redaction = Redaction::Untouched;
        line_encoding::push_event(&mut self.batch, self.numbered, at_ms, event, redaction);
        self.numbered
    }

    /// Adds an event of ours in which a secret was replaced.
    pub fn redacted_event(&mut self, at_ms: u64, event: &RunEvent) -> EventNumber {
        self.numbered.seq += 1;
        let redaction = Redaction::Redacted;
        line_encoding::push_event(&mut self.batch, self.numbered, at_ms, event, redaction);
        self.numbered
    }

    /// Makes sure that readers still find the journal where it was opened.
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

    /// How many bytes wait for [`flush`](Self::flush).
    pub fn pending_bytes(&self) -> usize {
        self.batch.len()
    }

    /// How long the journal is, without what waits for [`flush`](Self::flush).
    pub fn length(&self) -> u64 {
        self.end
    }

    /// The last event that readers can see.
    pub fn visible(&self) -> EventNumber {
        self.visible
    }

    /// Hands the batch to the kernel in one write, and returns the number of the last event that readers can see.
    ///
    /// When it fails, readers see whole lines only: those of the batch that fit are there for good, the others remain
    /// in the batch.
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
            // If this fails too, the next write goes to the same place, or the next writer cuts it.
            self.reserve.cut(&self.file, self.end).ok();
        }
        Err(write_error(failure))
    }

    /// Drops the lines that did not reach the kernel, and takes their numbers back; returns how many they were.
    pub fn discard_pending(&mut self) -> u64 {
        let n_discarded = self.numbered.seq - self.visible.seq;
        self.batch = Vec::new();
        self.numbered = self.visible;
        n_discarded
    }

    /// From now on the 8 MiB that were set aside may be used: for closing events, since there is no more of it. Pending
    /// lines go first; where they are too many, they are to be discarded.
    pub fn use_reserve(&mut self) {
        self.reserve.open();
    }

    /// Has everything that was flushed made durable within a second, without waiting for it.
    pub fn sync_soon(&self) {
        self.sync.wrote();
    }

    /// Has everything that was flushed made durable now, without waiting for it.
    pub fn begin_sync(&self) {
        self.sync.wrote();
        self.sync.hurry();
    }

    /// Waits until everything that was flushed is durable. Once this has failed it fails for good: the kernel reports a
    /// failed write-back once and then forgets it.
    pub fn sync_now(&mut self) -> Result<(), JournalError> {
        self.sync.wrote();
        self.sync.wait().map_err(JournalError::Sync)
    }

    /// Flushes, makes durable, and gives back the space that was set aside.
    pub fn finish(mut self) -> Result<EventNumber, JournalError> {
        let last = self.flush()?;
        self.sync_now()?;
        Ok(last)
    }
}

impl Drop for JournalWriter {
    /// What can still be saved is; who wants to know whether it was calls [`JournalWriter::finish`].
    fn drop(&mut self) {
        if !self.batch.is_empty() && self.flush().is_ok() {
            self.sync.wrote();
        }
        self.reserve.cut(&self.file, self.end).ok();
    }
}

/// What a writer finds at the end of a journal.
struct FoundTail {
    /// Of the file.
    length: u64,
    /// Of its last whole line.
    end: u64,
    /// The epoch that the last line is of, and the last number that was given.
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

    /// Somebody wrote before us if there is more than `created`, or was. After a power failure what somebody wrote, and
    /// others read, may be gone without a trace.
    fn needs_new_epoch(&self, first: &JournalHeader) -> bool {
        let restarted = match (&first.boot, boot_id()) {
            (Some(then), Some(now)) => *then != now,
            _ => false,
        };
        // `queued` is written by whoever makes the directory, together with `created`.
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

/// What must be durable for the journal to be found and understood.
fn surroundings(directory: &RunDirectory) -> Vec<PathBuf> {
    let path = directory.path();
    let parent = path.parent().unwrap_or(path);
    vec![directory.spec_path(), directory.prompt_path(), path.to_owned(), parent.to_owned()]
}

/// Returns how much was written, and what stopped it short of everything.
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
#[path = "journal_writer_tests.rs"]
mod tests;
