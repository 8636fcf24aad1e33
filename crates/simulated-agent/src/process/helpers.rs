//! Processes that outlive the agent on purpose. Each is this same program, started again.
//!
//! **Invariant:** no helper lives longer than [`LONGEST_LIFE`], even if the agent dies.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::SigSet;
use nix::unistd::setsid;

use super::LONGEST_LIFE;

/// How to start this program again: the binary, and the arguments that must come first.
#[derive(Clone, Debug)]
pub struct Reentry {
    pub program: PathBuf,
    pub leading_arguments: Vec<OsString>,
}

impl Reentry {
    /// Starts a helper and waits until it has its own session.
    fn start(&self, arguments: &[OsString], output: fn() -> Stdio) -> io::Result<()> {
        let (near, far) = UnixStream::pair()?;
        let child = Command::new(&self.program)
            .args(&self.leading_arguments)
            .args(arguments)
            .stdin(OwnedFd::from(far))
            .stdout(output())
            .stderr(output())
            .spawn()?;
        // Never wait for the child, because it should become an orphan.
        drop(child);
        (&near).read_exact(&mut [0])
    }
}

/// Leaves a `worker-server` behind that listens on the project's socket, as the real agent does.
pub fn start_orphan_worker(reentry: &Reentry, socket: &Path) -> io::Result<()> {
    reentry.start(&["worker-server".into(), socket.into()], Stdio::null)
}

/// Leaves a child behind that holds stdout open and that only SIGKILL ends.
pub fn start_deaf_child(reentry: &Reentry, log: &Path) -> io::Result<()> {
    reentry.start(&["deaf-child".into(), log.into()], Stdio::inherit)
}

/// Runs as a `worker-server` until its time is up.
pub fn serve_as_worker(socket: &Path) -> io::Result<()> {
    setsid()?;
    write_log(&socket.with_extension("log"), "worker-server")?;
    fs::remove_file(socket).ok();
    let listener = UnixListener::bind(socket)?;
    thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
        }
    });
    report_ready()?;
    thread::sleep(LONGEST_LIFE);
    fs::remove_file(socket)
}

/// Runs as a child that ignores signals until its time is up.
pub fn live_deaf(log: &Path) -> io::Result<()> {
    setsid()?;
    SigSet::all().thread_block()?;
    write_log(log, "deaf-child")?;
    report_ready()?;
    thread::sleep(LONGEST_LIFE);
    Ok(())
}

/// Logs the process id, so that a test can clean up.
fn write_log(path: &Path, name: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut log = fs::OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(log, "{name} started, pid {}", std::process::id())
}

/// Answers on stdin, which is one end of a socket pair.
fn report_ready() -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    UnixStream::from(stdin).write_all(b"!")
}
