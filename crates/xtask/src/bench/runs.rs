//! Whole runs: launch, flood, latency and memory, each against the nearest thing without a supervisor.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use command_fds::{CommandFdExt, FdMapping};
use run_journal::{RunDirectory, StateRoot};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde_json::Value;

use super::crowd::Crowd;
use super::limits::Limits;

/// The sizes of the measurements.
pub(crate) struct Sizes {
    pub(crate) launches: usize,
    pub(crate) flood_bytes: u64,
    pub(crate) concurrent: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Runs {
    launch: Launch,
    flood: Flood,
    tail: Tail,
    undo: Undo,
    crowds: Vec<Crowd>,
    limits: Limits,
}

#[derive(Debug, Serialize)]
struct Launch {
    n_launches: usize,
    caretaker_ms: f64,
    plain_ms: f64,
    ratio: f64,
    /// The payload by itself, without any sandbox.
    bare_ms: f64,
    /// The time that bubblewrap with the whole plan adds to that.
    plan_adds_ms: f64,
    /// The same run with the host's own network.
    host_network_ms: f64,
    /// The time that listeners inside the sandbox add to that.
    allowlist_adds_ms: f64,
}

#[derive(Debug, Serialize)]
struct Flood {
    bytes: u64,
    caretaker_s: f64,
    cat_s: f64,
    ratio: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Tail {
    n_events: usize,
    p50_ms: f64,
    p99_ms: f64,
}

/// Undoes a run that removed half of the files, changed the other half, and added a tenth as many.
#[derive(Debug, Serialize)]
struct Undo {
    n_files: usize,
    undo_s: f64,
    redo_s: f64,
    /// `git checkout --force` and `git clean` on the same changes.
    git_s: f64,
    /// The time to save the workspace: first all of it, then without any change.
    first_save_ms: f64,
    next_save_ms: f64,
}

pub(crate) fn measure(scratch: &Path, caretaker: &Path, sizes: &Sizes) -> anyhow::Result<Runs> {
    let stage = Stage::new(scratch, caretaker)?;
    Ok(Runs {
        launch: stage.launch(sizes.launches)?,
        flood: stage.flood(sizes.flood_bytes)?,
        tail: stage.tail(400)?,
        undo: stage.undo(10_000)?,
        crowds: stage.crowds(&crowd_sizes(sizes.concurrent))?,
        limits: stage.limits(sizes.launches)?,
    })
}

/// Measures only the time to launch a run.
pub(crate) fn measure_launch(
    scratch: &Path,
    caretaker: &Path,
    n_launches: usize,
) -> anyhow::Result<Value> {
    let launch = Stage::new(scratch, caretaker)?.launch(n_launches)?;
    Ok(serde_json::json!({ "launch": launch }))
}

/// Measures only crowds of silent runs.
pub(crate) fn measure_crowds(
    scratch: &Path,
    caretaker: &Path,
    largest: usize,
) -> anyhow::Result<Value> {
    let crowds = Stage::new(scratch, caretaker)?.crowds(&crowd_sizes(largest))?;
    Ok(serde_json::json!({ "crowds": crowds }))
}

fn crowd_sizes(largest: usize) -> Vec<usize> {
    [1, 50, 200, 500].into_iter().filter(|n_runs| *n_runs <= largest).collect()
}

/// A home directory and a state directory for the bench.
pub(super) struct Stage {
    pub(super) root: PathBuf,
    caretaker: PathBuf,
    /// A copy of this program, which plays the agent.
    agent: PathBuf,
}

impl Stage {
    fn new(scratch: &Path, caretaker: &Path) -> anyhow::Result<Self> {
        // Sockets need short paths, which the build directory does not always have.
        let root = std::env::temp_dir().join(format!("caretaker-bench-{}", std::process::id()));
        std::fs::create_dir_all(root.join("home"))?;
        std::fs::create_dir_all(scratch)?;
        // The path is that of an installed agent, because Caretaker reads the version from the path.
        let agent =
            root.join("home/.local/share/cursor-agent/versions/2026.10.01-bench00/cursor-agent");
        std::fs::create_dir_all(agent.parent().context("no parent")?)?;
        std::fs::copy(std::env::current_exe()?, &agent)?;
        Ok(Self { root, caretaker: caretaker.to_owned(), agent })
    }

    pub(super) fn workspace(&self, name: &str) -> anyhow::Result<PathBuf> {
        let workspace = self.root.join("home").join(name);
        std::fs::create_dir_all(&workspace)?;
        Ok(workspace)
    }

    pub(super) fn command(&self, workspace: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.caretaker);
        command
            .args(args)
            .current_dir(workspace)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root.join("home"))
            .env("CARETAKER_HOME", self.root.join("state"))
            .env("XDG_RUNTIME_DIR", self.root.join("r"))
            .env("CURSOR_API_KEY", "bench")
            .stdin(Stdio::null());
        command
    }

    /// Starts a run of the payload in the background and returns its id.
    fn start(&self, workspace: &Path, agent: &str, prompt: &str) -> anyhow::Result<String> {
        self.start_with(workspace, agent, prompt, &[])
    }

    pub(super) fn start_with(
        &self,
        workspace: &Path,
        agent: &str,
        prompt: &str,
        flags: &[&str],
    ) -> anyhow::Result<String> {
        let args = ["run", "--detach", "--agent", agent, prompt];
        let output = self.command(workspace, &[&args, flags].concat()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub(super) fn wait(&self, workspace: &Path, run: &str) -> anyhow::Result<bool> {
        let mut wait = self.command(workspace, &["wait", run]);
        Ok(wait.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
    }

    pub(super) fn agent(&self) -> &str {
        self.agent.to_str().unwrap_or_default()
    }

    fn launch(&self, n_launches: usize) -> anyhow::Result<Launch> {
        let workspace = self.workspace("launch")?;
        let (mut supervised, mut plain) = (Vec::new(), Vec::new());
        let (mut host_network, mut bare) = (Vec::new(), Vec::new());
        // The launches alternate, so that other load on the machine affects all of them.
        for _ in 0..n_launches {
            let (run, took) = self.supervised_launch(&workspace, "allowlist")?;
            supervised.push(took);
            plain.push(self.plain_launch(&workspace, &run)?);
            host_network.push(self.supervised_launch(&workspace, "host")?.1);
            bare.push(self.bare_launch(&workspace)?);
        }
        let (caretaker_ms, plain_ms) = (median(supervised), median(plain));
        let (host_network_ms, bare_ms) = (median(host_network), median(bare));
        Ok(Launch {
            n_launches,
            caretaker_ms,
            plain_ms,
            ratio: caretaker_ms / plain_ms,
            bare_ms,
            plan_adds_ms: plain_ms - bare_ms,
            host_network_ms,
            allowlist_adds_ms: caretaker_ms - host_network_ms,
        })
    }

    /// Plays a whole run, and measures the time to its payload's first instruction.
    fn supervised_launch(&self, workspace: &Path, network: &str) -> anyhow::Result<(String, f64)> {
        let start = nanoseconds();
        let run = self.start_with(workspace, self.agent(), "go", &["--network", network])?;
        self.wait(workspace, &run)?;
        let journal = std::fs::read_to_string(self.journal(&run))?;
        Ok((run, elapsed_ms(start, began_ns(&journal)?)))
    }

    /// Starts the payload without anything around it.
    fn bare_launch(&self, workspace: &Path) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.agent);
        command.args(["--print", "--resume", "bare"]).env_clear().current_dir(workspace);
        let start = nanoseconds();
        let output = command.stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(elapsed_ms(start, began_ns(&String::from_utf8(output.stdout)?)?))
    }

    pub(super) fn journal(&self, run: &str) -> PathBuf {
        self.root.join("state/runs").join(run).join("events.jsonl")
    }

    /// Starts the bwrap command of that run directly: no gate, no verification, no supervisor.
    fn plain_launch(&self, workspace: &Path, run: &str) -> anyhow::Result<f64> {
        let state = StateRoot::new(self.root.join("state"));
        let spec = RunDirectory::open(&state, run.parse()?)?.spec()?;
        // Make the directories that the run made and removed again.
        let sockets = run_shim::SocketPaths::new(&spec.socket_dir.0, spec.run);
        std::fs::create_dir_all(sockets.inside())?;
        std::fs::create_dir_all(workspace.join(".cursor"))?;
        let plan = run_shim::plan_run(&state, &spec)?;
        for directory in plan.writable_on_host() {
            std::fs::create_dir_all(directory)?;
        }

        let contents = plan.data_files().iter().map(|file| file.contents.as_slice());
        let programs = plan.seccomp_programs().iter().map(|program| program.bytes.as_slice());
        let data: Vec<OwnedFd> =
            contents.chain(programs).map(memory_file).collect::<anyhow::Result<_>>()?;
        let numbers: Vec<i32> = (5..).take(data.len()).collect();
        let (of_data, of_seccomp) = numbers.split_at(plan.data_files().len());
        let (status, status_writer) = rustix::pipe::pipe()?;
        let args = memory_file(&plan.bwrap_args(&run_shim::PlanFds {
            data: of_data.to_vec(),
            seccomp: of_seccomp.to_vec(),
            json_status: 4,
            block: None,
        }))?;
        let line = plan.command_line(3);
        let gate = line.iter().position(|word| word == "gate").context("no gate")?;
        let mut words = line[..gate - 1].to_vec();
        words.extend_from_slice(&line[gate + 1..]);
        let mut command = Command::new(&spec.bwrap.0);
        let mut mappings = vec![
            FdMapping { parent_fd: args, child_fd: 3 },
            FdMapping { parent_fd: status_writer, child_fd: 4 },
        ];
        let data = data.into_iter().zip(numbers);
        mappings.extend(data.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }));
        command.args(words).env_clear().stdin(Stdio::null()).fd_mappings(mappings)?;
        let start = nanoseconds();
        let output = command.output()?;
        drop(status);
        std::fs::remove_dir(workspace.join(".cursor"))?;
        let printed = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(elapsed_ms(start, began_ns(&printed)?))
    }

    fn flood(&self, bytes: u64) -> anyhow::Result<Flood> {
        let workspace = self.workspace("flood")?;
        let prompt = format!("```agent\nmisbehave huge-output {bytes}\nsay done\n```\n");
        let (mut caretaker_s, mut cat_s) = (f64::MAX, f64::MAX);
        for _ in 0..3 {
            let start = Instant::now();
            // The limits would stop a flood.
            let unlimited = ["--journal", "none", "--disk", "none"];
            let run = self.start_with(&workspace, "simulated", &prompt, &unlimited)?;
            ensure!(self.wait(&workspace, &run)?, "the flood did not succeed");
            caretaker_s = caretaker_s.min(start.elapsed().as_secs_f64());
            std::fs::remove_dir_all(self.root.join("state/runs").join(&run))?;

            let start = Instant::now();
            let file = File::create(self.root.join("flood.out"))?;
            let mut agent = self
                .command(
                    &workspace,
                    &[
                        "simulated-agent",
                        "--print",
                        "--output-format",
                        "stream-json",
                        "--trust",
                        "--force",
                    ],
                )
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            agent.stdin.take().context("no stdin")?.write_all(prompt.as_bytes())?;
            let output = agent.stdout.take().context("no stdout")?;
            let cat = Command::new("cat").stdin(output).stdout(file).status()?;
            ensure!(cat.success() && agent.wait()?.success());
            cat_s = cat_s.min(start.elapsed().as_secs_f64());
            std::fs::remove_file(self.root.join("flood.out"))?;
        }
        Ok(Flood { bytes, caretaker_s, cat_s, ratio: caretaker_s / cat_s })
    }

    pub(super) fn tail(&self, n_events: usize) -> anyhow::Result<Tail> {
        let workspace = self.workspace("tail")?;
        let run = self.start(&workspace, self.agent(), &format!("events {n_events}"))?;
        let mut tail = self
            .command(&workspace, &["tail", &run, "--follow", "--raw"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut latencies = Vec::new();
        for line in BufReader::new(tail.stdout.take().context("no stdout")?).lines() {
            let now = nanoseconds();
            let line: Value = serde_json::from_str(&line?)?;
            if let Some(sent) = line["sent_ns"].as_u64() {
                latencies.push(elapsed_ms(u128::from(sent), now));
            }
        }
        tail.wait()?;
        // The first events were written before the reader started.
        latencies.drain(..latencies.len() / 4);
        latencies.sort_by(f64::total_cmp);
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
        Ok(Tail { n_events: latencies.len(), p50_ms: at(0.5), p99_ms: at(0.99) })
    }

    fn undo(&self, n_files: usize) -> anyhow::Result<Undo> {
        let workspace = self.workspace("undo")?;
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
            // The bench would also measure git's housekeeping in the background, which removes files that a sandbox
            // protects.
            git.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
            git.args(arguments).current_dir(&workspace).env("GIT_CONFIG_GLOBAL", "/dev/null");
            let status = git.stdout(Stdio::null()).status()?;
            ensure!(status.success(), "git {arguments:?} failed");
            anyhow::Ok(())
        };
        let path = |number: usize| workspace.join(format!("d{}/f{number}", number % 100));
        for number in 0..n_files {
            let path = path(number);
            std::fs::create_dir_all(path.parent().context("no parent")?)?;
            std::fs::write(path, format!("line {number}\n").repeat(10 + number % 600))?;
        }
        git(&["init", "--quiet"])?;
        git(&["add", "."])?;
        git(&["commit", "--quiet", "--message", "one"])?;
        let saved_ms = |run: &str| {
            let journal = std::fs::read_to_string(self.journal(run))?;
            let saved = journal.lines().find(|line| line.contains("\"workspace_saved\""));
            let saved: Value = serde_json::from_str(saved.context("it was not saved")?)?;
            saved["run"]["ms"].as_f64().context("no time")
        };
        let first = self.start(&workspace, self.agent(), "go")?;
        self.wait(&workspace, &first)?;
        // Half of the files go, half of them change, and some are new.
        let script = format!(
            "n=0; while [ $n -lt {n_files} ]; do f=d$((n%100))/f$n; \
             if [ $((n%2)) = 0 ]; then echo $f; else echo changed $n > $f; fi; \
             if [ $((n%10)) = 0 ]; then echo new > new$n; fi; n=$((n+1)); done | xargs rm"
        );
        let prompt = format!("```agent\nshell {script}\nsay done\n```\n");
        let run = self.start(&workspace, "simulated", &prompt)?;
        ensure!(self.wait(&workspace, &run)?, "the changes were not made");
        let timed = |arguments: &[&str]| {
            let start = Instant::now();
            let output = self.command(&workspace, arguments).output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            anyhow::Ok(start.elapsed().as_secs_f64())
        };
        let undo_s = timed(&["undo", &run])?;
        git(&["diff", "--quiet", "HEAD"]).context("the undo is not exact")?;
        let redo_s = timed(&["undo", &run, "--redo"])?;
        ensure!(!path(0).exists() && workspace.join("new0").exists(), "the redo is not exact");
        let start = Instant::now();
        git(&["checkout", "--force", "--quiet", "."])?;
        git(&["clean", "--force", "--quiet"])?;
        let git_s = start.elapsed().as_secs_f64();
        let (first_save_ms, next_save_ms) = (saved_ms(&first)?, saved_ms(&run)?);
        Ok(Undo { n_files, undo_s, redo_s, git_s, first_save_ms, next_save_ms })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // If this fails, a scratch directory stays in the directory for temporary files.
        std::fs::remove_dir_all(&self.root).ok();
    }
}

fn memory_file(content: &[u8]) -> anyhow::Result<OwnedFd> {
    let mut file = File::from(memfd_create("bench", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

pub(super) fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

pub(super) fn elapsed_ms(start: u128, end: u128) -> f64 {
    end.saturating_sub(start) as f64 / 1e6
}

/// Returns the time at which the payload says that it began.
pub(super) fn began_ns(output: &str) -> anyhow::Result<u128> {
    let (_, rest) = output.split_once("\"began_ns\":").context("the payload did not begin")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
