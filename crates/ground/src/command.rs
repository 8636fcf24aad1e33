//! Runs a program on the host to completion, with limits on its time and output, in its own process group.
//!
//! ```text
//!   caller ──► the guard, first process of a new group: reads stdin until the caller dies, then kills the group
//!    └───────► the program, in the same group ──► its children
//! ```
//!
//! **Invariant:** when [`run`] returns, no process of the program's group is alive. The same holds if the caller is
//! killed while the program runs: a Ctrl-C in the terminal does not reach the new process group.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The limits on a program.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub within: Duration,
    /// The limit on stdout and on stderr; anything beyond it is cut.
    pub most_output: u64,
}

/// The limit on a short answer.
const SHORT: u64 = 1 << 20;

impl Bounds {
    /// For a command with a short answer: `--version`, `status`.
    pub fn of_question(within: Duration) -> Self {
        Self { within, most_output: SHORT }
    }
}

/// A program's answer.
#[derive(Debug)]
pub struct Answer {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Answer {
    /// Its stdout as text, with invalid bytes replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its stderr as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    #[error("`{}` cannot be started", program.display())]
    Start { program: OsString, source: io::Error },
    #[error("it did not end within {} s, so it was killed", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("cannot wait for it")]
    Wait(#[source] io::Error),
}

enum Part {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exited,
}

/// Runs a command to completion. Kills it with its process group if it takes too long.
pub fn run(
    command: &mut Command,
    input: Option<Vec<u8>>,
    bounds: Bounds,
) -> Result<Answer, NoAnswer> {
    let deadline = Instant::now() + bounds.within;
    let program = command.get_program().to_owned();
    let failed = |source| NoAnswer::Start { program: program.clone(), source };
    // The guard starts first, so that the program is never without it.
    let mut guard = post_guard().map_err(failed)?;
    let group = Pid::from_child(&guard);
    let spawned = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(group.as_raw_pid())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(source) => {
            guard.kill().ok();
            guard.wait().ok();
            return Err(failed(source));
        }
    };
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // If the program does not read everything, its exit code says why.
        thread::spawn(move || stdin.write_all(&input).ok());
    }
    let parts = parts_of(&mut child, bounds.most_output);
    let (mut stdout, mut stderr, mut timed_out) = (Vec::new(), Vec::new(), false);
    // A process that left the group may still hold a pipe, but cannot delay this beyond the bounds.
    for _ in 0..3 {
        match parts.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Part::Stdout(bytes)) => stdout = bytes,
            Ok(Part::Stderr(bytes)) => stderr = bytes,
            Ok(Part::Exited) => {}
            Err(_) => timed_out = true,
        }
    }
    // The guard is not reaped yet, so its pid is still its own.
    kill_process_group(group, Signal::KILL).ok();
    guard.wait().ok();
    // The program may have left the group.
    child.kill().ok();
    let status = child.wait().map_err(NoAnswer::Wait)?;
    if timed_out {
        return Err(NoAnswer::TimedOut(bounds.within));
    }
    Ok(Answer { status, stdout, stderr })
}

fn parts_of(child: &mut Child, most_output: u64) -> mpsc::Receiver<Part> {
    let (sender, parts) = mpsc::channel();
    let pid = Pid::from_child(child);
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (pipe, part) in [(stdout, Part::Stdout as fn(Vec<u8>) -> Part), (stderr, Part::Stderr as _)]
    {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // If the pipe breaks, use the bytes read so far.
            pipe.map(|pipe| pipe.take(most_output).read_to_end(&mut bytes));
            sender.send(part(bytes)).ok();
        });
    }
    thread::spawn(move || {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
        sender.send(Part::Exited).ok();
    });
    parts
}

/// Starts a process that kills its process group when the caller dies.
fn post_guard() -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", "read -r _; kill -s KILL 0"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
