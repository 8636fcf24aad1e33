//! Where lines go: stdout, one whole line at a time, unless a bad habit was asked for.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What stdout carries, as `--output-format` chose.
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

/// Ways to spoil the stream without changing what is said.
#[derive(Clone, Debug, Default)]
pub struct BadHabits {
    /// Every line begins with `stdout: `.
    pub prefix: bool,
    /// After every line comes one that is not JSON.
    pub noise: bool,
    /// Writes end in the middle of a character whenever there is one of several bytes.
    pub split_characters: bool,
    /// After so many whole lines, half a line is written and the process is killed.
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

/// The one writer of stdout; threads share it.
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

    /// Writes one line and its newline at once, so that a signal never cuts it.
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

    /// Writes the same line over and over, until at least `n_bytes` have gone out.
    pub fn repeat(&self, line: &str, n_bytes: u64) -> io::Result<()> {
        let bytes = format!("{line}\n").into_bytes();
        let mut n_written = 0;
        while n_written < n_bytes {
            // Locked anew for each line, so that a signal finds a place to cut.
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

    /// Lets the line under way end and no other begin. A reader that does not read must not keep
    /// a signal from ending us, hence the limit.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SIGKILL to ourselves: nothing is closed, flushed or said.
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
        // A continuation byte right after a leading one: the middle of a character.
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
#[path = "output_tests.rs"]
mod tests;
