//! The output of a command: a bounded part in memory, and all of it in a file once it is long or runs on unattended.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Generation, ToolEnvironment};

/// Output beyond this many bytes goes to a file, as the newer agent says in `fileOutputThresholdBytes`.
pub(super) const SPILL_THRESHOLD: usize = 40_000;
/// The older agent had no such file; our memory has a limit all the same.
const KEPT_WITHOUT_SPILL: usize = 1024 * 1024;
/// A file of output is cut here, so that `yes` does not fill the disk.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// Which pipe bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// What a command has printed so far.
///
/// **Invariant:** at most three times the kept length is in memory, however much is printed.
#[derive(Debug)]
pub(super) struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    interleaved: Vec<u8>,
    kept: usize,
    n_bytes: u64,
    n_lines: u64,
    spill: Spill,
}

#[derive(Debug)]
enum Spill {
    /// What does not fit in memory is lost.
    Never,
    /// A file is made in this directory when memory no longer holds everything.
    WhenLong(PathBuf),
    Into(OutputFile),
}

impl Output {
    pub(super) fn new(environment: &ToolEnvironment) -> Self {
        let (kept, spill) = match environment.generation {
            Generation::V2026_01 => (KEPT_WITHOUT_SPILL, Spill::Never),
            Generation::V2026_09 => {
                (SPILL_THRESHOLD, Spill::WhenLong(environment.project_directory.agent_tools()))
            }
        };
        let (stdout, stderr, interleaved) = (Vec::new(), Vec::new(), Vec::new());
        Self { stdout, stderr, interleaved, kept, n_bytes: 0, n_lines: 0, spill }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        self.n_lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        if let Spill::WhenLong(directory) = &self.spill
            && self.n_bytes > self.kept as u64
        {
            let path = directory.join(format!("{}.txt", Uuid::new_v4()));
            self.spill_into(&path);
        }
        if let Spill::Into(file) = &mut self.spill {
            file.append(bytes);
        }
        let own = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        for buffer in [own, &mut self.interleaved] {
            let room = self.kept - buffer.len();
            buffer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// From now on everything is written to this file too, beginning with what was printed before. Nothing changes if
    /// a file is being written already. Returns the path of the file, if there is one.
    pub(super) fn spill_into(&mut self, path: &Path) -> Option<&Path> {
        if !matches!(self.spill, Spill::Into(_)) {
            // A full disk must not end the command: its output is then only in memory.
            self.spill =
                OutputFile::create(path, &self.interleaved).map_or(Spill::Never, Spill::Into);
        }
        match &self.spill {
            Spill::Into(file) => Some(&file.path),
            Spill::Never | Spill::WhenLong(_) => None,
        }
    }

    pub(super) fn stdout(&self) -> String {
        text(&self.stdout)
    }

    pub(super) fn stderr(&self) -> String {
        text(&self.stderr)
    }

    pub(super) fn interleaved(&self) -> String {
        text(&self.interleaved)
    }

    /// Returns where all of the output is, if it is more than memory holds.
    pub(super) fn location(&self) -> Option<Value> {
        match &self.spill {
            Spill::Into(file) if self.n_bytes > self.kept as u64 => {
                Some(location(&file.path, self.n_bytes, self.n_lines))
            }
            _ => None,
        }
    }
}

/// Writes a long text to a file of its own and returns where it is.
pub(super) fn spill_text(text: &str, environment: &ToolEnvironment) -> io::Result<Value> {
    let path = environment.project_directory.agent_tools().join(format!("{}.txt", Uuid::new_v4()));
    OutputFile::create(&path, text.as_bytes())?;
    Ok(location(
        &path,
        text.len() as u64,
        text.bytes().filter(|byte| *byte == b'\n').count() as u64,
    ))
}

fn location(path: &Path, n_bytes: u64, n_lines: u64) -> Value {
    json!({
        "filePath": path.to_string_lossy(),
        "sizeBytes": n_bytes.to_string(),
        "lineCount": n_lines.to_string(),
    })
}

#[derive(Debug)]
struct OutputFile {
    path: PathBuf,
    file: File,
    room: u64,
}

impl OutputFile {
    fn create(path: &Path, beginning: &[u8]) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = File::create(path)?;
        let mut output_file = Self { path: path.to_owned(), file, room: FILE_LIMIT };
        output_file.append(beginning);
        Ok(output_file)
    }

    fn append(&mut self, bytes: &[u8]) {
        let n_written = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        self.room -= n_written as u64;
        if self.file.write_all(&bytes[..n_written]).is_err() {
            self.room = 0;
        }
    }
}

/// Bytes as text. A character that was cut at the end is left out; other damage is replaced.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Err(err) if err.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..err.valid_up_to()]).into_owned()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
