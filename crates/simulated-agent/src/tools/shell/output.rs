//! The output of a command: a bounded part in memory, and the whole in a file if it is long or runs in the background.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::tools::{Generation, ToolEnvironment};

/// Longer output goes to a file. The newer agent prints this number as `fileOutputThresholdBytes`.
pub(in crate::tools) const SPILL_THRESHOLD: usize = 40_000;
/// The older agent had no such file. The simulated agent still limits its memory.
const KEPT_WITHOUT_SPILL: usize = 1024 * 1024;
/// The size limit of an output file, so that `yes` does not fill the disk.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The output so far.
///
/// **Invariant:** at most three times the kept length is in memory, however much a command prints.
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
    /// The part that does not fit in memory is lost.
    Never,
    /// A file in this directory takes the output as soon as memory no longer holds everything.
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

    /// Writes everything to this file from now on, beginning with the output so far. Does nothing if there is already a
    /// file.
    pub(super) fn spill_into(&mut self, path: &Path) {
        if !matches!(self.spill, Spill::Into(_)) {
            // A full disk must not end the command. Its output then stays in memory.
            self.spill =
                OutputFile::create(path, &self.interleaved).map_or(Spill::Never, Spill::Into);
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

    /// Returns the location of the whole output, if memory does not hold it.
    pub(super) fn location(&self) -> Option<Value> {
        match &self.spill {
            Spill::Into(file) if self.n_bytes > self.kept as u64 => {
                Some(location(&file.path, self.n_bytes, self.n_lines))
            }
            _ => None,
        }
    }
}

/// Writes a long text to its own file and returns the file's location.
pub(in crate::tools) fn spill_text(text: &str, environment: &ToolEnvironment) -> io::Result<Value> {
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

/// Decodes bytes as text. Omits an incomplete character at the end, and replaces other invalid bytes.
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
