//! The keeper replaces bubblewrap in a run without a sandbox. It is the agent's parent, and ends everything that the
//! agent started.
//!
//! A sandbox has a process namespace, and the kernel ends all of it at once. Without one, the keeper adopts every
//! orphan below it. It ends them all when the agent ends, when the shim sends SIGTERM, and when the shim dies:
//!
//! ```text
//!   shim ──► keeper ──► gate, which becomes the agent ──► its processes; the keeper adopts their orphans
//!              ├─ the agent ends       ─┐
//!              ├─ SIGTERM from the shim ├─► kills every process below, reports the agent's exit code
//!              └─ the shim dies        ─┘
//! ```
//!
//! It does not stop an agent that wants to escape: without a sandbox, an agent may kill its keeper. Then the shim
//! adopts the rest and ends it. Only a process that started its own session may escape.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitCode};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid, setsid};

use crate::sandbox::descendants;

/// The descriptors of the agent's variables, and of the keeper's report.
pub(crate) const ENVIRONMENT_FD: i32 = 3;
pub(crate) const STATUS_FD: i32 = 4;

/// Variables as the keeper reads them: `NAME=VALUE`, with a NUL after each.
pub(crate) fn environment_bytes(variables: &[(OsString, OsString)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in variables {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// The keeper's main function: `caretaker keeper <pid of the shim> <program> <arguments…>`.
pub fn keeper_main(arguments: &[OsString]) -> ExitCode {
    match keep(arguments) {
        Ok(code) => code,
        Err(error) => {
            writeln!(io::stderr(), "caretaker keeper: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn keep(arguments: &[OsString]) -> io::Result<ExitCode> {
    let [shim, program, rest @ ..] = arguments else {
        return Err(io::Error::other("it needs the pid of its shim and a program"));
    };
    // The loop below handles signals one by one. The gate unblocks them for the agent.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    setsid().ok();
    prctl::set_child_subreaper(true)?;
    prctl::set_pdeathsig(Signal::SIGTERM)?;
    // If the shim died before this process asked for the signal, the signal never comes.
    if shim.to_str().and_then(|pid| pid.parse().ok()) != Some(getppid().as_raw()) {
        return Err(io::Error::other("its shim is gone"));
    }
    let variables = fs::read(format!("/proc/self/fd/{ENVIRONMENT_FD}"))?;
    let mut status = OpenOptions::new().write(true).open(format!("/proc/self/fd/{STATUS_FD}"))?;
    close_fds::set_fds_cloexec(3, &[]);

    let mut command = Command::new(program);
    command.args(rest).env_clear().envs(read_environment(&variables));
    let payload = Pid::from_raw(command.spawn()?.id().cast_signed());
    writeln!(status, "{{\"child-pid\":{}}}", getpid())?;

    let exit_code = wait_for_end(&signals, payload);
    descendants::end_all();
    if let Some(code) = exit_code {
        writeln!(status, "{{\"exit-code\":{code}}}").ok();
    }
    let code = exit_code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the agent's exit code, or `None` if the keeper must end it.
fn wait_for_end(signals: &SigSet, payload: Pid) -> Option<i32> {
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) => {}
            Ok(_) => return None,
            Err(_) => continue,
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            match status {
                WaitStatus::Exited(pid, code) if pid == payload => return Some(code),
                // A shell and bubblewrap return the same code.
                WaitStatus::Signaled(pid, signal, _) if pid == payload => {
                    return Some(128 + signal as i32);
                }
                WaitStatus::StillAlive => break,
                _ => {}
            }
        }
    }
}

fn read_environment(bytes: &[u8]) -> Vec<(&OsStr, &OsStr)> {
    let variable = |line: &'_ [u8]| -> Option<(usize, usize)> {
        let at = line.iter().position(|byte| *byte == b'=')?;
        (at > 0).then_some((at, at + 1))
    };
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let (end, begin) = variable(line)?;
            Some((OsStr::from_bytes(&line[..end]), OsStr::from_bytes(&line[begin..])))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn variables_reach_the_keeper_unchanged() {
        let variables: Vec<(OsString, OsString)> = [("A", "1"), ("B", ""), ("C", "x=y\nz")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
        let bytes = environment_bytes(&variables);
        let read: Vec<(OsString, OsString)> = read_environment(&bytes)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(read, variables);
    }
}
