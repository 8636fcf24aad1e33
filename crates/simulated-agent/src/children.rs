//! Processes that are meant to outlive the agent, each started from this very program.
//!
//! **Invariant:** none of them lives longer than [`LONGEST_LIFE`], whatever happens to the agent.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::unistd::setsid;

/// The bound of everything that hangs or lingers on purpose, so that no test leaks for ever.
pub const LONGEST_LIFE: Duration = Duration::from_secs(600);

/// How this program is started again: the binary, and what its command line needs first.
#[derive(Clone, Debug)]
pub struct Reentry {
    pub program: PathBuf,
    pub leading_arguments: Vec<OsString>,
}

impl Reentry {
    /// Starts a helper and waits until it has left our session.
    fn start(&self, arguments: &[OsString], output: fn() -> Stdio) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(&self.program)
            .args(&self.leading_arguments)
            .args(arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(output())
            .stderr(output())
            .spawn()?;
        // The handle is dropped without waiting: an orphan is the point.
        drop(child);
        let mut ready = [0];
        (&ours).read_exact(&mut ready)
    }
}

/// Starts what the real agent leaves behind: a `worker-server` that listens on the project's socket.
pub fn start_orphan_worker(reentry: &Reentry, socket: &Path) -> io::Result<()> {
    reentry.start(&["worker-server".into(), socket.into()], Stdio::null)
}

/// Starts a child that holds our stdout open and that no signal but SIGKILL ends.
pub fn start_deaf_child(reentry: &Reentry, log: &Path) -> io::Result<()> {
    reentry.start(&["deaf-child".into(), log.into()], Stdio::inherit)
}

/// The life of a `worker-server`.
pub fn serve_as_worker(socket: &Path) -> io::Result<()> {
    setsid()?;
    // The agent blocks signals for its own sake, and a mask is inherited.
    SigSet::all().thread_unblock()?;
    write_log(&socket.with_extension("log"), "worker-server")?;
    fs::remove_file(socket).ok();
    let listener = UnixListener::bind(socket)?;
    thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
        }
    });
    say_ready()?;
    thread::sleep(LONGEST_LIFE);
    fs::remove_file(socket)
}

/// The life of a child that does not listen.
pub fn live_deaf(log: &Path) -> io::Result<()> {
    setsid()?;
    SigSet::all().thread_block()?;
    write_log(log, "deaf-child")?;
    say_ready()?;
    thread::sleep(LONGEST_LIFE);
    Ok(())
}

/// Leaves the process id where whoever cleans up can find it.
fn write_log(path: &Path, who: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut log = fs::OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(log, "{who} started, pid {}", std::process::id())
}

/// Answers on stdin, which is one end of a socket pair.
fn say_ready() -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    UnixStream::from(stdin).write_all(b"!")
}
