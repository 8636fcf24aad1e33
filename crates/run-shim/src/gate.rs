//! The first program inside a sandbox: says that it is there, waits for the word, and becomes the agent.
//!
//! bubblewrap can hold a sandbox back by itself (`--block-fd`), but it takes the end of that pipe for the word to go, and
//! while it waits it does not yet die with its parent. So it is this gate that waits, on the agent's own stdin, when the
//! sandbox is complete and bound to our life:
//!
//! ```text
//!   gate ──► stdout: one byte, the first of all          "the sandbox is up"
//!   stdin ──► gate: one byte, before the prompt          "it was verified: go"    ──► exec of the agent
//!             end of file                                "the shim is dead"       ──► exit, nothing ran
//! ```

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// What the gate says when it is reached.
pub(crate) const HERE: u8 = 0x06;
/// What it waits for.
pub(crate) const GO: u8 = 0x11;
/// Begins the line on stderr that tells why the agent could not be started.
pub(crate) const COMPLAINT: &str = "caretaker gate: ";

/// Exit codes of a shell that cannot start a program.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The whole life of the gate: `caretaker gate <program> <arguments…>`.
pub fn gate_main(command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else { return ExitCode::FAILURE };
    let mut stdout = io::stdout();
    if stdout.write_all(&[HERE]).and_then(|()| stdout.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    let mut word = [0];
    // Exactly one byte, and none into a buffer of ours: what follows is the agent's prompt.
    match nix::unistd::read(io::stdin().as_fd(), &mut word) {
        Ok(1) if word == [GO] => {}
        _ => return ExitCode::FAILURE,
    }
    // Whoever started us may have blocked signals for its own use, and a child inherits that.
    nix::sys::signal::SigSet::all().thread_unblock().ok();
    // What bubblewrap was given for its own use is none of the agent's.
    close_fds::set_fds_cloexec(3, &[]);
    let error = Command::new(program).args(arguments).exec();
    writeln!(io::stderr(), "{COMPLAINT}`{}` cannot be started: {error}", program.display()).ok();
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}
