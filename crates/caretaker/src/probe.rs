//! Short questions to other programs (`--version`, `status`, a trial sandbox), bounded in time and in output.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// More than any answer we ask for.
const MOST_OUTPUT: u64 = 1 << 20;

/// What a program answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("it could not be started")]
    Start(#[source] io::Error),
    #[error("it did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("it could not be waited for")]
    Wait(#[source] io::Error),
}

enum Part {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exited,
}

/// Runs a command to its end, without input. After `limit` it is killed with its process group.
pub(crate) fn ask(command: &mut Command, limit: Duration) -> Result<Answer, ProbeError> {
    ask_for_much(command, limit, MOST_OUTPUT)
}

/// As [`ask`], where more is expected: up to `most_output` bytes.
pub(crate) fn ask_for_much(
    command: &mut Command,
    limit: Duration,
    most_output: u64,
) -> Result<Answer, ProbeError> {
    let deadline = Instant::now() + limit;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(ProbeError::Start)?;
    let group = Pid::from_raw(child.id().cast_signed());
    let parts = parts_of(&mut child, group, most_output);

    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut timed_out = false;
    // Three parts are awaited; who left the group and still holds a pipe cannot keep us longer than the limit.
    for _ in 0..3 {
        match parts.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Part::Stdout(bytes)) => stdout = bytes,
            Ok(Part::Stderr(bytes)) => stderr = bytes,
            Ok(Part::Exited) => {}
            Err(_) => timed_out = true,
        }
    }
    // The child was not reaped yet, so the number is still its own; nothing is left where all of it ended.
    killpg(group, Signal::SIGKILL).ok();
    let status = child.wait().map_err(ProbeError::Wait)?;
    if timed_out {
        return Err(ProbeError::TimedOut(limit));
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { status, stdout: text(stdout), stderr: text(stderr) })
}

fn parts_of(child: &mut Child, pid: Pid, most_output: u64) -> mpsc::Receiver<Part> {
    let (sender, parts) = mpsc::channel();
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (pipe, part) in [(stdout, Part::Stdout as fn(Vec<u8>) -> Part), (stderr, Part::Stderr as _)]
    {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // A pipe that breaks off has said what it had to say.
            pipe.map(|pipe| pipe.take(most_output).read_to_end(&mut bytes));
            sender.send(part(bytes)).ok();
        });
    }
    thread::spawn(move || {
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).ok();
        sender.send(Part::Exited).ok();
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_answer_has_both_outputs_and_the_exit_code() {
        let answer =
            ask(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(20)).unwrap();
        assert_eq!(
            (answer.status.code(), answer.stdout.as_str(), answer.stderr.as_str()),
            (Some(3), "out\n", "err\n")
        );
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let begun = Instant::now();
        let outcome = ask(&mut shell("sleep 600 & sleep 600"), Duration::from_millis(50));
        assert!(matches!(outcome, Err(ProbeError::TimedOut(_))));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_flood_is_cut() {
        let answer = ask(&mut shell("head -c 3000000 /dev/zero; exit 0"), Duration::from_secs(20));
        assert_eq!(answer.unwrap().stdout.len() as u64, MOST_OUTPUT);
    }

    #[test]
    fn a_program_that_is_not_there_says_so() {
        let outcome = ask(&mut Command::new("/no/such/program"), Duration::from_secs(1));
        assert!(matches!(outcome, Err(ProbeError::Start(_))));
    }
}
