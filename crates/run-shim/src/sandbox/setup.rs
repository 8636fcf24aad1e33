//! The command that prepares a new worktree. The gate runs it inside the sandbox, before it becomes the agent.
//!
//! ```text
//!   gate ──► stdout: `>` and a line, for each line that the command prints      the shim records it
//!            stdout: `=`, if the command succeeded                              the agent's output follows
//!            exits with the command's exit code, if it failed                   the agent never runs
//! ```
//!
//! The gate marks each line, so that the command cannot print anything that looks like the agent's output.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const OUTPUT: u8 = b'>';
const DONE: &[u8] = b"=\n";
/// The longest line; the rest of it becomes the next line.
const LONGEST_LINE: u64 = 4096;
/// How long the gate waits for more output after the command's end. A process in the background may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs the command. Fails with its exit code.
pub(super) fn run(command: &str) -> Result<(), u8> {
    // Exit codes of a shell that cannot start a program.
    let status = run_and_pass_on(command).map_err(|error| {
        pass_on(format!("cannot run the set-up command: {error}").as_bytes()).ok();
        126
    })?;
    match status.code() {
        Some(0) => {
            let mut stdout = io::stdout();
            stdout.write_all(DONE).and_then(|()| stdout.flush()).map_err(|_| 126)
        }
        Some(code) => Err(u8::try_from(code).unwrap_or(1)),
        None => Err(128 + status.signal().and_then(|it| u8::try_from(it).ok()).unwrap_or(0)),
    }
}

fn run_and_pass_on(command: &str) -> io::Result<std::process::ExitStatus> {
    let (output, input) = io::pipe()?;
    // The prompt is already on stdin, for the agent.
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(input.try_clone()?)
        .stdout(input)
        .spawn()?;
    let (tell_end, end) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if pass_on(&line).is_err() {
                break;
            }
            line.clear();
        }
        tell_end.send(()).ok();
    });
    let status = child.wait()?;
    end.recv_timeout(DRAIN).ok();
    Ok(status)
}

/// Writes a line with its mark, in one write.
fn pass_on(line: &[u8]) -> io::Result<()> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let marked = [&[OUTPUT], line, b"\n"].concat();
    let mut stdout = io::stdout().lock();
    stdout.write_all(&marked).and_then(|()| stdout.flush())
}

/// The shim's side: the beginning of a line that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct SetupOutput(Vec<u8>);

impl SetupOutput {
    /// Reads what the gate printed. Returns where the agent's output begins, once the command has succeeded.
    pub(crate) fn read(&mut self, bytes: &[u8], mut tell: impl FnMut(String)) -> Option<usize> {
        let mut at = 0;
        while let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') {
            self.add(&bytes[at..at + length]);
            at += length + 1;
            let line = std::mem::take(&mut self.0);
            match line.strip_prefix(&[OUTPUT]) {
                Some(text) => tell(String::from_utf8_lossy(text).into_owned()),
                None => return Some(at),
            }
        }
        self.add(&bytes[at..]);
        None
    }

    /// The gate's lines are short, but another process inside could write to its pipe.
    fn add(&mut self, bytes: &[u8]) {
        let room = (LONGEST_LINE as usize + 1).saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_agents_output_begins_after_the_mark_wherever_the_pipe_cuts() {
        let whole = b">one\n>=\n>{\"type\":\"result\"}\n=\n{\"type\":\"system\"}\n";
        for cut in 0..=whole.len() {
            let (mut output, mut lines, mut rest) =
                (SetupOutput::default(), Vec::new(), Vec::<u8>::new());
            let mut is_over = false;
            for piece in [&whole[..cut], &whole[cut..]] {
                let begins = match is_over {
                    true => Some(0),
                    false => output.read(piece, |line| lines.push(line)),
                };
                is_over |= begins.is_some();
                rest.extend_from_slice(begins.map_or(&[][..], |at| &piece[at..]));
            }
            assert_eq!(lines, ["one", "=", "{\"type\":\"result\"}"]);
            assert_eq!(rest, b"{\"type\":\"system\"}\n");
        }
    }

    #[test]
    fn an_endless_line_is_cut() {
        let mut output = SetupOutput::default();
        for _ in 0..10 {
            assert_eq!(output.read(&[b'>'; 4096], |_| ()), None);
        }
        let mut length = 0;
        output.read(b"\n", |line| length = line.len());
        assert_eq!(length, 4096);
    }
}
