//! Starts a program with a clean signal mask, as the leader of a process group of its own.
//!
//! The agent's threads block SIGINT and SIGTERM, and `std::process` hands the mask of the spawning thread on: a
//! `timeout 1 sleep 5` would then never end. `posix_spawn` sets the mask in the child and needs no unsafe code. It
//! cannot change the directory, so `/bin/sh` does that and then becomes the program.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

const CHANGE_DIRECTORY: &str = r#"cd -- "$1" && shift && exec "$@""#;

/// What to start. Its output always comes through a pipe.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) args: &'a [OsString],
    /// The whole environment of the child.
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) directory: &'a Path,
    pub(crate) stdin: Stdio,
    pub(crate) stderr: Stdio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdio {
    Null,
    Pipe,
}

/// Our ends of the pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: Option<PipeReader>,
}

impl Launch<'_> {
    /// Starts the program. Whoever calls must reap it. A program that does not exist ends with code 127.
    pub(super) fn start(&self) -> io::Result<(Pid, Pipes)> {
        if !self.directory.is_dir() {
            let text = format!("the directory {} does not exist", self.directory.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let shell =
            [OsStr::new("sh"), OsStr::new("-c"), OsStr::new(CHANGE_DIRECTORY), OsStr::new("sh")];
        let command = [self.directory.as_os_str(), self.program];
        let args =
            shell.into_iter().chain(command).chain(self.args.iter().map(OsString::as_os_str));
        let args = args.map(|arg| c_string(arg.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let env = self
            .env
            .iter()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        let env = env.collect::<io::Result<Vec<_>>>()?;

        // All of these are closed on exec; the copies that the child gets as 0, 1 and 2 are not.
        let (stdout, stdout_end) = io::pipe()?;
        let (stdin, stdin_end): (_, OwnedFd) = match self.stdin {
            Stdio::Null => (None, File::open("/dev/null")?.into()),
            Stdio::Pipe => io::pipe().map(|(reader, writer)| (Some(writer), reader.into()))?,
        };
        let (stderr, stderr_end): (_, OwnedFd) = match self.stderr {
            Stdio::Null => (None, OpenOptions::new().write(true).open("/dev/null")?.into()),
            Stdio::Pipe => io::pipe().map(|(reader, writer)| (Some(reader), writer.into()))?,
        };
        let mut actions = PosixSpawnFileActions::init()?;
        for (end, number) in
            [(stdin_end.as_raw_fd(), 0), (stdout_end.as_raw_fd(), 1), (stderr_end.as_raw_fd(), 2)]
        {
            actions.add_dup2(end, number)?;
        }
        let leader = posix_spawn("/bin/sh", &actions, &clean_signals()?, &args, &env)?;
        Ok((leader, Pipes { stdin, stdout, stderr }))
    }
}

/// No signal blocked and none ignored, as node does it for its children. Rust programs ignore SIGPIPE.
fn clean_signals() -> io::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_sigmask(&SigSet::empty())?;
    let changeable = |signal: &Signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP);
    attributes.set_sigdefault(&Signal::iterator().filter(changeable).collect())?;
    Ok(attributes)
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|err| io::Error::new(io::ErrorKind::InvalidInput, err))
}
