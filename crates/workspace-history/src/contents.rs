//! Reads contents out of our repository, through one `git cat-file --batch`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::git::{Git, GitError};
use crate::import::PIPE_BYTES;

/// Answers one question after the other, in the order they were asked.
#[derive(Debug)]
pub struct ContentReader {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Questions go ahead of the answers: git need not wait for us.
    questions: Option<mpsc::Sender<Vec<u8>>>,
}

impl ContentReader {
    pub(crate) fn start(git: &Git, store: &Path) -> Result<Self, GitError> {
        Self::spawn(git.command_for_store(store))
    }

    /// From two repositories of ours.
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
                // Who does not listen any more has said why.
                stdin.write_all(&ids).ok();
            }
        });
        Ok(Self {
            child,
            output: BufReader::with_capacity(PIPE_BYTES, stdout),
            questions: Some(questions),
        })
    }

    /// Asks for all of these, to be read in this order.
    pub(crate) fn ask_for<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) {
        if let Some(questions) = self.questions.take() {
            let ids: String = ids.into_iter().flat_map(|id| [id, "\n"]).collect();
            questions.send(ids.into_bytes()).ok();
        }
    }

    /// Writes the next answer to `out`.
    pub(crate) fn next(&mut self, id: &str, out: &mut impl Write) -> io::Result<()> {
        let mut header = String::new();
        self.output.read_line(&mut header)?;
        let mut words = header.split_whitespace();
        let (found, kind, size) = (words.next(), words.next(), words.next());
        let size: Option<u64> = size.and_then(|size| size.parse().ok());
        let (Some("blob"), Some(size), true) = (kind, size, found == Some(id)) else {
            return Err(io::Error::other(format!("the content {id} is not kept any more")));
        };
        // As it comes: most files are in one piece.
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
                // The answers come in order, and the next one begins after this.
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
