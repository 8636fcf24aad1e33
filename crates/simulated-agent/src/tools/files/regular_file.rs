//! Reads workspace files: never more than a limit, and never from a pipe or device that could block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use serde_json::Value;

/// The beginning of a file, and its whole length.
#[derive(Debug)]
pub(crate) struct FileContent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) n_bytes_in_file: u64,
}

impl FileContent {
    pub(crate) fn is_cut(&self) -> bool {
        (self.bytes.len() as u64) < self.n_bytes_in_file
    }
}

/// Reads at most `limit` bytes. Pipes, sockets, devices and directories are errors.
pub(crate) fn read_regular_file(path: &Path, limit: u64) -> io::Result<FileContent> {
    let file = open_regular_file(path)?;
    let n_bytes_in_file = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(FileContent { n_bytes_in_file: n_bytes_in_file.max(bytes.len() as u64), bytes })
}

/// More than any settings file needs, including its caches.
const MAX_JSON_BYTES: u64 = 4 * 1024 * 1024;

/// Reads a JSON file. Returns `None` if the file is missing, too long or not JSON.
pub(crate) fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_regular_file(path, MAX_JSON_BYTES).ok()?.bytes).ok()
}

fn open_regular_file(path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}
