//! Reads contents from our repository, through one `git cat-file --batch`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::git::import::PIPE_BYTES;
use crate::git::{Git, GitError};

/// Reads contents in the order of the requests.
#[derive(Debug)]
pub struct ContentReader {
    child: Child,
    output: BufReader<ChildStdout>,
    /// A thread sends requests in advance, so that git never waits for the reader.
    questions: Option<mpsc::Sender<Vec<u8>>>,
}

impl ContentReader {
    pub(crate) fn start(git: &Git, store: &Path) -> Result<Self, GitError> {
        Self::spawn(git.command_for_store(store))
    }

    /// Reads from two of our repositories.
    pub(crate) fn start_with(git: &Git, store: &Path, other: &Path) -> Result<Self, GitError> {
        let mut command = git.command_for_store(store);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", other.join("objects"));
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, GitError> {
        command.args(["cat-file", "--batch", "--buffer"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let program = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(|source| GitError::Start { program, source })?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(GitError::Wait(io::Error::other("git has no pipes")));
        };
        rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES).ok();
        let (questions, asked) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            for ids in asked {
                // If git has stopped reading, its answers say why.
                stdin.write_all(&ids).ok();
            }
        });
        Ok(Self {
            child,
            output: BufReader::with_capacity(PIPE_BYTES, stdout),
            questions: Some(questions),
        })
    }

    /// Requests these contents in this order.
    pub(crate) fn ask_for<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        if let Some(questions) = self.questions.take() {
            let ids: String = ids.into_iter().flat_map(|id| [id, "\n"]).collect();
            questions.send(ids.into_bytes()).ok();
        }
    }

    /// Writes the next requested content to `out`.
    pub(crate) fn next(&mut self, id: &str, out: &mut impl Write) -> io::Result<()> {
        let mut header = String::new();
        self.output.read_line(&mut header)?;
        let mut words = header.split_whitespace();
        let (found, kind, size) = (words.next(), words.next(), words.next());
        let size: Option<u64> = size.and_then(|size| size.parse().ok());
        let (Some("blob"), Some(size), true) = (kind, size, found == Some(id)) else {
            return Err(io::Error::other(format!("content {id} is gone")));
        };
        // Most files arrive in one piece.
        let mut left = size;
        while left > 0 {
            let piece = self.output.fill_buf()?;
            let length = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let written = out.write_all(&piece[..length]);
            self.output.consume(length);
            left -= length as u64;
            if let Err(error) = written {
                // Blobs arrive in order: skip the rest of this blob, so that the next read begins at the next blob.
                io::copy(&mut Read::by_ref(&mut self.output).take(left + 1), &mut io::sink())?;
                return Err(error);
            }
        }
        let mut line_end = [0];
        self.output.read_exact(&mut line_end)
    }
}

impl Drop for ContentReader {
    fn drop(&mut self) {
        self.questions = None;
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
