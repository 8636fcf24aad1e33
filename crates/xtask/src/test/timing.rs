//! Runs all tests, and reports the slowest.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::commands;

const SLOWEST: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Timings {
    /// The test binary that prints the current lines.
    binary: String,
    binaries: BTreeMap<String, Binary>,
    tests: Vec<(f64, String)>,
}

#[derive(Debug, Default)]
struct Binary {
    n_tests: u64,
    seconds: f64,
}

/// Runs all tests and records their durations.
pub(super) fn run_all_tests(timings: &mut Timings) -> anyhow::Result<()> {
    // The harness reports times only with a nightly flag; the variable makes a stable harness accept it. Only the test
    // binaries get the variable: with it, cargo would rebuild everything.
    let host = host_triple()?;
    let runner = format!("target.{host}.runner=['env', 'RUSTC_BOOTSTRAP=1']");
    let mut command = commands::cargo_command(["test", "--locked", "--workspace"]);
    command.args(["--no-fail-fast", "--lib", "--bins", "--tests", "--config", &runner]).args([
        "--",
        "-Zunstable-options",
        "--report-time",
    ]);
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer).stdin(Stdio::null());
    let mut child = command.spawn().context("cannot start cargo")?;
    // The command holds the write ends of the pipe. Drop it, so that the pipe ends with the child.
    drop(command);
    let mut out = std::io::stdout().lock();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        timings.take(&String::from_utf8_lossy(&line));
    }
    let status = child.wait()?;
    ensure!(status.success(), "`cargo test` ended with {status}");
    Ok(())
}

fn host_triple() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

impl Timings {
    /// Reads one line that cargo or a test binary printed.
    fn take(&mut self, line: &str) {
        if let Some(rest) = line.trim_start().strip_prefix("Running ") {
            let path = rest.rsplit_once('(').map_or(rest, |(_, path)| path.trim_end_matches(')'));
            let name = path.rsplit('/').next().unwrap_or(path);
            name.rsplit_once('-').map_or(name, |(name, _)| name).clone_into(&mut self.binary);
        } else if let Some((test, seconds)) = timed_test(line) {
            self.binaries.entry(self.binary.clone()).or_default().n_tests += 1;
            self.tests.push((seconds, format!("{}: {test}", self.binary)));
        } else if let Some(seconds) = total(line) {
            self.binaries.entry(self.binary.clone()).or_default().seconds += seconds;
        }
    }

    /// Returns the duration of each test binary, and the slowest tests; `None` if no test ran.
    pub(super) fn table(mut self) -> Option<String> {
        if self.tests.is_empty() {
            return None;
        }
        let mut binaries: Vec<_> = self.binaries.into_iter().collect();
        binaries.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
        let mut lines = vec![format!("{:<28} {:>6} {:>9}", "test binary", "tests", "seconds")];
        lines.extend(binaries.iter().map(|(name, Binary { n_tests, seconds })| {
            format!("{name:<28} {n_tests:>6} {seconds:>9.1}")
        }));
        self.tests.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        lines.push(format!("\n{:>9}  slowest tests", "seconds"));
        lines.extend(
            self.tests
                .iter()
                .take(SLOWEST)
                .map(|(seconds, test)| format!("{seconds:>9.1}  {test}")),
        );
        Some(lines.join("\n"))
    }
}

/// `test a::b ... ok <0.123s>`
fn timed_test(line: &str) -> Option<(&str, f64)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = result.rsplit_once('<')?.1.strip_suffix("s>")?;
    Some((name, seconds.parse().ok()?))
}

/// `test result: ok. 3 passed; …; finished in 1.23s`
fn total(line: &str) -> Option<f64> {
    let (_, seconds) = line.strip_prefix("test result: ")?.rsplit_once("finished in ")?;
    seconds.strip_suffix('s')?.parse().ok()
}

#[cfg(test)]
#[path = "timing_tests.rs"]
mod tests;
