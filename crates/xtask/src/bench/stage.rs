//! A home directory for the benchmark, the commands that run there, and the kernel's measurements.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Dropping it deletes its directory.
pub(super) struct Stage {
    directory: tempfile::TempDir,
    pub(super) caretaker: PathBuf,
}

/// A command's output, time and memory.
pub(super) struct Timed {
    pub(super) took: Duration,
    pub(super) cpu: Duration,
    pub(super) peak_memory_kib: u64,
    pub(super) output: Vec<u8>,
}

impl Stage {
    /// A stage below `parent`. Sockets need short paths, so a stage with runs must not be in the build directory.
    pub(super) fn new(parent: &Path, caretaker: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(parent)?;
        let stage = Self { directory, caretaker: caretaker.to_owned() };
        std::fs::create_dir_all(stage.home())?;
        Ok(stage)
    }

    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub(super) fn workspace(&self, name: &str) -> anyhow::Result<PathBuf> {
        let workspace = self.home().join(name);
        std::fs::create_dir_all(&workspace)?;
        Ok(workspace)
    }

    /// Returns a `caretaker` command in a directory of this home.
    pub(super) fn command(&self, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.caretaker);
        command
            .args(args)
            .current_dir(directory)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("CARETAKER_HOME", self.root().join("state"))
            .env("XDG_RUNTIME_DIR", self.root().join("r"))
            .env("CURSOR_API_KEY", "bench")
            .stdin(Stdio::null());
        command
    }

    /// Runs a `caretaker` command, and returns its output.
    pub(super) fn output(&self, directory: &Path, args: &[&str]) -> anyhow::Result<String> {
        output_of(&mut self.command(directory, args))
    }

    /// Runs a `caretaker` command, and measures it.
    pub(super) fn timed(&self, args: &[&str]) -> anyhow::Result<Timed> {
        let output = self.root().join("output");
        let cpu_before = children_cpu()?;
        let start = Instant::now();
        let mut child = self
            .command(&self.home(), args)
            .stdout(std::fs::File::create(&output)?)
            .stderr(Stdio::null())
            .spawn()?;
        let mut peak_memory_kib = 0;
        let status = loop {
            // The high-water mark disappears with the process, so read it repeatedly until the process ends.
            peak_memory_kib = memory_kib(child.id(), "VmHWM:").unwrap_or(peak_memory_kib);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        let took = start.elapsed();
        ensure!(status.success(), "`caretaker {}` ended with {status}", args.join(" "));
        let cpu = children_cpu()?.saturating_sub(cpu_before);
        Ok(Timed { took, cpu, peak_memory_kib, output: std::fs::read(&output)? })
    }
}

/// Runs a command that must succeed, and returns its output.
pub(super) fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Reads a memory line from `/proc/<pid>/status`, in KiB.
pub(super) fn memory_kib(pid: u32, line: &str) -> anyhow::Result<u64> {
    kib_in(&std::fs::read_to_string(format!("/proc/{pid}/status"))?, line)
}

/// Parses a line such as `VmRSS: 1024 kB` from a kernel file.
pub(super) fn kib_in(text: &str, name: &str) -> anyhow::Result<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.with_context(|| format!("no {name}"))?.trim().trim_end_matches(" kB").parse()?)
}

/// Returns the processor time of all children that have ended.
pub(super) fn children_cpu() -> anyhow::Result<Duration> {
    cpu_of(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)
}

pub(super) fn cpu_of(who: nix::sys::resource::UsageWho) -> anyhow::Result<Duration> {
    use nix::sys::time::TimeValLike as _;
    let usage = nix::sys::resource::getrusage(who)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.try_into()?))
}

/// Returns the quickest of several rounds, in seconds.
pub(super) fn best_seconds(
    rounds: usize,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Returns the value below which this share of the values lies.
pub(super) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}
