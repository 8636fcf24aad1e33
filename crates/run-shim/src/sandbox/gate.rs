//! The first program inside a sandbox: it reports that it has started, waits for the release, and becomes the agent.
//!
//! bubblewrap can hold a sandbox itself (`--block-fd`). But it treats the end of that pipe as the release, and while it
//! waits, it does not yet die with its parent. So this gate waits instead, on the agent's own stdin, once the sandbox
//! is complete and bound to the shim's lifetime:
//!
//! ```text
//!   gate ──► stdout: its first byte                      "the sandbox is up"
//!   stdin ──► gate: one byte and a line of limits,       "verified: go"           ──► sets the limits, becomes the agent
//!             before the prompt
//!             end of file                                "the shim is dead"       ──► exits, nothing ran
//! ```
//!
//! In the first run of a new worktree, the gate runs the set-up command before it becomes the agent; see `setup`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::limits::ProcessLimits;
use crate::sandbox::setup;

/// The gate's report that it has started.
pub(crate) const HERE: u8 = 0x06;
/// The release.
const GO: u8 = 0x11;
/// The longest line of limits.
const LONGEST_LINE: usize = 512;
/// The beginning of the line on stderr that explains why the agent could not be started.
pub(crate) const COMPLAINT: &str = "caretaker gate: ";

/// Exit codes of a shell that cannot start a program.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The flag before the set-up command.
pub(crate) const SETUP: &str = "--setup";

/// The gate's main function: `caretaker gate [--setup <command>] <program> <arguments…>`.
pub fn gate_main(command: &[OsString]) -> ExitCode {
    let (setup, command) = match command {
        [flag, setup, command @ ..] if flag == SETUP => (setup.to_str(), command),
        command => (None, command),
    };
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
    // The parent may have blocked signals, and a child inherits the mask.
    nix::sys::signal::SigSet::all().thread_unblock().ok();
    // The agent must not inherit bubblewrap's descriptors.
    close_fds::set_fds_cloexec(3, &[]);
    if let Some(Err(code)) = setup.map(setup::run) {
        return ExitCode::from(code);
    }
    let error = Command::new(program).args(arguments).exec();
    writeln!(io::stderr(), "{COMPLAINT}`{}` cannot be started: {error}", program.display()).ok();
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}

/// The bytes that release the agent.
pub(crate) fn word(limits: &ProcessLimits) -> Vec<u8> {
    [&[GO], limits.words().as_bytes()].concat()
}

/// Waits for the release. `None` if it does not come; then the agent must not run.
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

/// Reads exactly one byte, without a buffer, because the agent's prompt follows.
fn next_byte() -> Option<u8> {
    let mut byte = [0];
    match nix::unistd::read(io::stdin().as_fd(), &mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}
