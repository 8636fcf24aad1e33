//! Reads the agent's stderr to the end, keeps a bounded part of it, and remembers its tail to explain a failure.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agent_stream::LineSplitter;

use crate::limits::DiskAccount;

/// The largest `stderr.log`.
const FILE_BYTES: usize = 4 << 20;
/// The keeper holds this much of the tail in memory.
const TAIL_BYTES: usize = 16 * 1024;
/// The keeper cuts longer lines.
const LONGEST_LINE: usize = 64 * 1024;

/// Keeps the agent's stderr.
pub(crate) struct StderrKeeper {
    splitter: LineSplitter,
    /// `None` if the shim could not create the log. The tail works without it.
    file: Option<File>,
    file_room: usize,
    tail: VecDeque<u8>,
    /// Counts the file's bytes.
    account: DiskAccount,
}

impl StderrKeeper {
    pub(crate) fn new(log: &Path, account: DiskAccount) -> Self {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(log).ok();
        Self {
            splitter: LineSplitter::with_ceiling(LONGEST_LINE),
            file,
            file_room: FILE_BYTES,
            tail: VecDeque::new(),
            account,
        }
    }

    /// Takes the next chunk. `clean` removes secrets from a line.
    pub(crate) fn take(&mut self, chunk: &[u8], clean: &dyn Fn(&[u8]) -> Vec<u8>) {
        let mut lines = Vec::new();
        self.splitter.feed(chunk, |line| lines.push(clean(line.bytes())));
        lines.iter().for_each(|line| self.keep(line));
    }

    /// Keeps the last line if it does not end with a line feed.
    pub(crate) fn finish(&mut self, clean: &dyn Fn(&[u8]) -> Vec<u8>) {
        let mut lines = Vec::new();
        self.splitter.finish(|line| lines.push(clean(line.bytes())));
        lines.iter().for_each(|line| self.keep(line));
    }

    /// Returns the end of stderr.
    pub(crate) fn tail(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn keep(&mut self, line: &[u8]) {
        self.tail.extend(line);
        self.tail.push_back(b'\n');
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);

        let Some(file) = &mut self.file else { return };
        if line.len() < self.file_room {
            self.file_room -= line.len() + 1;
            self.account.add(line.len() as u64 + 1);
            // The log is only a convenience. On a full disk, the journal's error ends the run.
            file.write_all(&[line, b"\n"].concat()).ok();
        } else {
            file.write_all(b"[caretaker: the rest was not kept]\n").ok();
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_file_does_not_grow_without_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("stderr.log");
        let mut keeper = StderrKeeper::new(&log, DiskAccount::default());
        let clean = |line: &[u8]| line.to_vec();
        for number in 0..200_000 {
            keeper.take(format!("line {number} of a very talkative agent\n").as_bytes(), &clean);
        }
        keeper.take(b"Error: the ", &clean);
        keeper.take(b"end", &clean);
        keeper.finish(&clean);
        assert!(keeper.tail().ends_with("line 199999 of a very talkative agent\nError: the end\n"));
        assert!(keeper.tail().len() <= TAIL_BYTES);
        let length = std::fs::metadata(&log).unwrap().len();
        assert!(length > 1 << 20 && length <= (FILE_BYTES + 100) as u64, "{length}");
    }

    #[test]
    fn a_secret_that_arrives_in_two_pieces_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("stderr.log");
        let mut keeper = StderrKeeper::new(&log, DiskAccount::default());
        let redactor = crate::record::redaction::Redactor::new(["key_0123456789abcdef"]);
        let clean = |line: &[u8]| redactor.clean(line).into_owned();
        keeper.take(b"bad key_01234567", &clean);
        keeper.take(b"89abcdef!\n", &clean);
        assert_eq!(keeper.tail(), "bad [redacted]!\n");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "bad [redacted]!\n");
    }
}
