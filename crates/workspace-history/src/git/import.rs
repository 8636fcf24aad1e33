//! Writes contents and one commit into our repository, through `git fast-import`: one process, one pack.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::thread::JoinHandle;

use crate::git::{Git, GitError};
use crate::tree_path::TreePath;
use crate::walk::coverage::is_git;

/// The size of the pipe to git.
pub(crate) const PIPE_BYTES: usize = 1 << 20;
/// The size of one read.
const PIECE: u64 = 1 << 20;

/// A stream into our repository.
#[derive(Debug)]
pub(crate) struct Import {
    child: Child,
    input: BufWriter<ChildStdin>,
    stderr: JoinHandle<String>,
    marks: PathBuf,
    n_marks: usize,
    /// Reused for every file.
    buffer: Vec<u8>,
}

/// Content that was sent. Its id is known once the import is finished.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

/// The content of one path in a commit.
pub(crate) enum Content<'a> {
    Known(&'a str),
    Marked(Mark),
}

/// The ids of all marked contents.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    ids: Vec<String>,
}

impl Imported {
    pub(crate) fn id(&self, mark: Mark) -> Option<&str> {
        self.ids.get(mark.0).map(String::as_str).filter(|id| !id.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadThrough {
    Whole,
    /// The length has just changed, so another process is writing the file.
    InFlux,
}

impl Import {
    pub(crate) fn start(git: &Git, store: &Path) -> Result<Self, GitError> {
        let marks = store.join(format!("marks-{}", std::process::id()));
        let mut export = std::ffi::OsString::from("--export-marks=");
        export.push(&marks);
        let mut command = git.command_for_store(store);
        command
            .args(["fast-import", "--quiet", "--done", "--force", "--depth=0"])
            .arg(export)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let program = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(|source| GitError::Start { program, source })?;
        let (Some(stdin), Some(mut stderr)) = (child.stdin.take(), child.stderr.take()) else {
            return Err(GitError::Wait(io::Error::other("git has no pipes")));
        };
        let stderr = std::thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).ok();
            String::from_utf8_lossy(&said).into_owned()
        });
        // Room for many files, so that on a busy machine neither process waits for the other at each file. If the
        // kernel refuses, the import is only slower.
        rustix::pipe::fcntl_setpipe_size(&stdin, PIPE_BYTES).ok();
        let input = BufWriter::with_capacity(256 * 1024, stdin);
        Ok(Self { child, input, stderr, marks, n_marks: 0, buffer: Vec::new() })
    }

    fn mark(&mut self, length: u64) -> io::Result<Mark> {
        let mark = Mark(self.n_marks);
        self.n_marks += 1;
        write!(self.input, "blob\nmark :{}\ndata {length}\n", mark.0 + 1)?;
        Ok(mark)
    }

    /// Sends content from memory.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<Mark> {
        let mark = self.mark(bytes.len() as u64)?;
        self.input.write_all(bytes)?;
        self.input.write_all(b"\n")?;
        Ok(mark)
    }

    /// Sends a file of a known length. Pads a file that has become shorter, because git already expects this length.
    pub(crate) fn file(&mut self, mut file: File, length: u64) -> io::Result<(Mark, ReadThrough)> {
        if length <= PIECE {
            // Reads one byte more than expected, so that a single read shows whether the file has grown.
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(length as usize + 1, 0);
            let read = read_up_to(&mut file, &mut buffer)?;
            let mark = self.bytes(&buffer[..read.min(length as usize)]);
            self.buffer = buffer;
            let is_whole = read as u64 == length;
            return Ok((mark?, if is_whole { ReadThrough::Whole } else { ReadThrough::InFlux }));
        }
        let mark = self.mark(length)?;
        let copied = io::copy(&mut Read::by_ref(&mut file).take(length), &mut self.input)?;
        if copied < length {
            io::copy(&mut io::repeat(0).take(length - copied), &mut self.input)?;
        }
        self.input.write_all(b"\n")?;
        let has_more = file.read(&mut [0])? > 0;
        let is_whole = copied == length && !has_more;
        Ok((mark, if is_whole { ReadThrough::Whole } else { ReadThrough::InFlux }))
    }

    /// Sends one commit without parents, with exactly these files.
    pub(crate) fn commit<'a>(
        &mut self,
        name: &str,
        message: &str,
        seconds: u64,
        files: impl Iterator<Item = (&'a TreePath, &'static str, Content<'a>)>,
    ) -> io::Result<Mark> {
        let mark = Mark(self.n_marks);
        self.n_marks += 1;
        write!(
            self.input,
            "commit {name}\nmark :{}\ncommitter Caretaker <> {seconds} +0000\ndata {}\n{message}\ndeleteall\n",
            mark.0 + 1,
            message.len()
        )?;
        for (path, mode, content) in files {
            match content {
                Content::Known(id) => write!(self.input, "M {mode} {id} ")?,
                Content::Marked(mark) => write!(self.input, "M {mode} :{} ", mark.0 + 1)?,
            }
            write_quoted(&mut self.input, &without_git_names(path))?;
            self.input.write_all(b"\n")?;
        }
        Ok(mark)
    }

    /// Ends the stream. Everything is in the repository afterwards.
    pub(crate) fn finish(mut self) -> Result<Imported, GitError> {
        let written = self.input.write_all(b"done\n").and_then(|()| self.input.flush());
        drop(self.input);
        let status = self.child.wait().map_err(GitError::Wait)?;
        let said = self.stderr.join().unwrap_or_default();
        let text = std::fs::read_to_string(&self.marks);
        std::fs::remove_file(&self.marks).ok();
        if !status.success() || written.is_err() {
            let first = said.lines().find(|line| !line.trim().is_empty());
            return Err(GitError::Refused(first.unwrap_or("nothing").to_owned()));
        }
        let mut ids = vec![String::new(); self.n_marks];
        for line in text.unwrap_or_default().lines() {
            let Some((mark, id)) = line.strip_prefix(':').and_then(|line| line.split_once(' '))
            else {
                continue;
            };
            let slot =
                mark.parse::<usize>().ok().and_then(|mark| ids.get_mut(mark.checked_sub(1)?));
            if let Some(slot) = slot {
                id.clone_into(slot);
            }
        }
        Ok(Imported { ids })
    }

    /// Aborts the import and keeps nothing.
    pub(crate) fn abandon(mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_file(&self.marks).ok();
    }
}

/// Reads until the buffer is full or the file ends.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Git refuses `.git` in its trees. Only the contents matter here, so this uses another name.
fn without_git_names(path: &TreePath) -> Cow<'_, [u8]> {
    const INSTEAD: &[u8] = b"git directory of the workspace";
    if !path.names().any(is_git) {
        return Cow::Borrowed(path.as_bytes());
    }
    let names: Vec<&[u8]> =
        path.names().map(|name| if is_git(name) { INSTEAD } else { name }).collect();
    Cow::Owned(names.join(&b'/'))
}

/// Writes a path with fast-import's quoting.
fn write_quoted(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut quoted = Vec::with_capacity(bytes.len() + 2);
    quoted.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    out.write_all(&quoted)
}
