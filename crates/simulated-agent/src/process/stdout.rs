//! Writes stdout one whole line at a time, unless a misbehaviour breaks it.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lock;

/// The choices of `--output-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    Json,
    StreamJson,
}

impl OutputFormat {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            "stream-json" => Some(Self::StreamJson),
            _ => None,
        }
    }
}

/// Ways to break the stream without changing its content.
#[derive(Clone, Debug, Default)]
pub struct BadHabits {
    /// Every line begins with `stdout: `.
    pub prefix: bool,
    /// A line that is not JSON follows every line.
    pub noise: bool,
    /// Every multi-byte character is written in two halves.
    pub split_characters: bool,
    /// After this many whole lines, half a line follows, and then SIGKILL.
    pub dies_mid_line_after: Option<u64>,
}

const NOISE: [&str; 5] = [
    "(node:4242) ExperimentalWarning: SQLite is an experimental feature and might change at any time",
    "(Use `node --trace-warnings ...` to show where the warning was created)",
    "T: [deadline_exceeded] Error",
    "\u{1b}[33m⚠ something yellow\u{1b}[39m",
    "",
];

/// Long enough for a reader to see the first half alone.
const PAUSE_INSIDE_A_CHARACTER: Duration = Duration::from_millis(5);

/// The one writer of stdout. Threads share it.
pub struct Output {
    state: Mutex<State>,
}

struct State {
    sink: Box<dyn Write + Send>,
    habits: BadHabits,
    n_lines: u64,
}

impl Output {
    pub fn to_stdout() -> Self {
        Self::new(Box::new(io::stdout()))
    }

    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        let state = State { sink, habits: BadHabits::default(), n_lines: 0 };
        Self { state: Mutex::new(state) }
    }

    pub fn event(&self, event: &Value) -> io::Result<()> {
        self.line(&event.to_string())
    }

    /// Writes one line together with its newline, so that a signal never cuts it.
    pub fn line(&self, line: &str) -> io::Result<()> {
        let mut state = self.lock();
        let prefix = if state.habits.prefix { "stdout: " } else { "" };
        let bytes = format!("{prefix}{line}\n").into_bytes();
        if state.habits.dies_mid_line_after == Some(state.n_lines) {
            state.sink.write_all(&bytes[..bytes.len() / 2])?;
            state.sink.flush()?;
            kill_this_process();
        }
        if state.habits.split_characters {
            write_split(&mut state.sink, &bytes)?;
        } else {
            state.sink.write_all(&bytes)?;
        }
        if state.habits.noise {
            let noise = NOISE[state.n_lines as usize % NOISE.len()];
            writeln!(state.sink, "{noise}")?;
        }
        state.n_lines += 1;
        state.sink.flush()
    }

    /// Writes the same line again and again, until at least `n_bytes` are written.
    pub fn repeat(&self, line: &str, n_bytes: u64) -> io::Result<()> {
        let bytes = format!("{line}\n").into_bytes();
        let mut n_written = 0;
        while n_written < n_bytes {
            // A new lock for each line, so that a signal can cut between two lines.
            self.lock().sink.write_all(&bytes)?;
            n_written += bytes.len() as u64;
        }
        self.lock().sink.flush()
    }

    pub fn change_habits(&self, change: impl FnOnce(&mut BadHabits)) {
        change(&mut self.lock().habits);
    }

    /// Arms [`BadHabits::dies_mid_line_after`], counting from now.
    pub fn die_mid_line_after(&self, n_lines: u64) {
        let mut state = self.lock();
        state.habits.dies_mid_line_after = Some(state.n_lines + n_lines);
    }

    /// Finishes the current line and starts no other. The limit exists because a reader that does not read must not
    /// keep the process alive after a signal.
    pub fn stop(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Ok(guard) = self.state.try_lock() {
                std::mem::forget(guard);
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Sends SIGKILL to this process: it closes, flushes and prints nothing more.
pub fn kill_this_process() -> ! {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    kill(Pid::this(), Signal::SIGKILL).ok();
    loop {
        thread::park();
    }
}

fn write_split(sink: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let mut start = 0;
    for at in 1..bytes.len() {
        // A continuation byte right after a leading byte: the middle of a character.
        let in_the_middle = bytes[at] & 0xc0 == 0x80 && bytes[at - 1] & 0xc0 == 0xc0;
        if in_the_middle {
            sink.write_all(&bytes[start..at])?;
            sink.flush()?;
            thread::sleep(PAUSE_INSIDE_A_CHARACTER);
            start = at;
        }
    }
    sink.write_all(&bytes[start..])
}

#[cfg(test)]
#[path = "stdout_tests.rs"]
mod tests;
