//! The first program inside a sandbox: says that it is there, waits for the word, and becomes the agent.
//!
//! bubblewrap can hold a sandbox back by itself (`--block-fd`), but it takes the end of that pipe for the word to go, and
//! while it waits it does not yet die with its parent. So it is this gate that waits, on the agent's own stdin, when the
//! sandbox is complete and bound to our life:
//!
//! ```text
//!   gate ──► stdout: one byte, the first of all          "the sandbox is up"
//!   stdin ──► gate: one byte and a line of limits,       "it was verified: go"    ──► exec of the agent, so limited
//!             before the prompt
//!             end of file                                "the shim is dead"       ──► exit, nothing ran
//! ```

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::limits::ProcessLimits;

/// What the gate says when it is reached.
pub(crate) const HERE: u8 = 0x06;
/// What it waits for.
const GO: u8 = 0x11;
/// More than any line of limits has.
const LONGEST_LINE: usize = 512;
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
    let Some(limits) = the_word() else { return ExitCode::FAILURE };
    if let Err(error) = limits.apply() {
        writeln!(io::stderr(), "{COMPLAINT}the limits of the run cannot be set: {error}").ok();
        return ExitCode::from(NOT_EXECUTABLE);
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

/// What the shim says to the gate to let the agent go.
pub(crate) fn word(limits: &ProcessLimits) -> Vec<u8> {
    [&[GO], limits.words().as_bytes()].concat()
}

/// Waits for the word. `None`: it was not said, and the agent must not run.
fn the_word() -> Option<ProcessLimits> {
    if next_byte()? != GO {
        return None;
    }
    let mut line = Vec::new();
    while line.len() < LONGEST_LINE {
        match next_byte()? {
            b'\n' => return ProcessLimits::parse(std::str::from_utf8(&line).ok()?),
            byte => line.push(byte),
        }
    }
    None
}

/// Exactly one byte, and none into a buffer of ours: what follows is the agent's prompt.
fn next_byte() -> Option<u8> {
    let mut byte = [0];
    match nix::unistd::read(io::stdin().as_fd(), &mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}
