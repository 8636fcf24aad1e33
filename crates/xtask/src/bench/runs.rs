//! Whole runs: launch, flood, latency and memory, each compared with the nearest equivalent without a supervisor.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use command_fds::{CommandFdExt, FdMapping};
use run_journal::{RunDirectory, StateRoot};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;

use super::Part;
use super::figures::Figures;
use super::stage::{Stage, best_seconds, output_of, quantile};

/// The stage for all measurements of runs.
pub(super) struct Runs {
    pub(super) stage: Stage,
    /// A copy of this program, which plays the agent.
    pub(super) agent: String,
}

pub(super) fn measure(
    figures: &mut Figures,
    caretaker: &Path,
    part: Part,
    args: &super::Args,
) -> anyhow::Result<()> {
    let runs = Runs::new(caretaker)?;
    if part != Part::Crowds {
        runs.launch(figures, args.launches)?;
        runs.launch_with_caches(figures, args.launches)?;
    }
    if part == Part::Runs {
        runs.flood(figures, (args.flood_mib as u64) << 20)?;
        runs.tail(figures, "tail -f: from the agent's write to the reader")?;
        runs.undo(figures, 10_000)?;
    }
    if part != Part::Launch {
        runs.crowds(figures, args.concurrent)?;
    }
    if part == Part::Runs {
        runs.limits(figures, args.launches)?;
    }
    Ok(())
}

impl Runs {
    fn new(caretaker: &Path) -> anyhow::Result<Self> {
        let stage = Stage::new(&std::env::temp_dir(), caretaker)?;
        // The path looks like an installed agent's, because Caretaker reads the version from the path.
        let versions = ".local/share/cursor-agent/versions/2026.10.01-bench00";
        let agent = stage.workspace(versions)?.join("cursor-agent");
        std::fs::copy(std::env::current_exe()?, &agent)?;
        Ok(Self { stage, agent: agent.display().to_string() })
    }

    /// Starts a run in the background and returns its id.
    pub(super) fn start(
        &self,
        workspace: &Path,
        agent: &str,
        prompt: &str,
        flags: &[&str],
    ) -> anyhow::Result<String> {
        let args = ["run", "--detach", "--agent", agent, prompt];
        let id = self.stage.output(workspace, &[&args, flags].concat())?;
        Ok(id.trim().to_owned())
    }

    /// Waits for a run, and returns whether it succeeded.
    fn wait(&self, workspace: &Path, run: &str) -> anyhow::Result<bool> {
        Ok(self.stage.command(workspace, &["wait", run]).output()?.status.success())
    }

    fn launch(&self, figures: &mut Figures, n_launches: usize) -> anyhow::Result<()> {
        let workspace = self.stage.workspace("launch")?;
        let mut times: [Vec<f64>; 5] = Default::default();
        // The launches alternate, so that other load on the machine affects all of them.
        for number in 0..n_launches {
            let (run, took) = self.supervised_launch(&workspace, &["--network", "allowlist"])?;
            times[0].push(took);
            times[1].push(self.plain_launch(&workspace, &run)?);
            times[2].push(self.supervised_launch(&workspace, &["--network", "host"])?.1);
            times[3].push(self.bare_launch(&workspace)?);
            times[4].push(self.new_file_ms(number)?);
        }
        let [caretaker, plain, host_network, bare, new_file] =
            times.map(|times| quantile(times, 0.5));
        let section = figures.section(format!(
            "launch: from exec to the payload's first instruction, median of {n_launches}"
        ));
        section.row("caretaker run", caretaker, "ms");
        section.row("the same bwrap command alone", plain, "ms");
        section.row("ratio", caretaker / plain, "×").at_most(1.5);
        section.row("the payload without any sandbox", bare, "ms");
        section.row("the whole plan adds to that", plain - bare, "ms").at_most(25.0);
        section.row("caretaker run with the host's network", host_network, "ms");
        section.row("allowlist adds to that", caretaker - host_network, "ms").at_most(25.0);
        section.row("one new file; a launch makes about 40", new_file, "ms");
        Ok(())
    }

    /// Measures the creation of one file, to tell a slow disk from a slow launch. ext4 does not reuse an inode that was
    /// deleted a moment ago, and searches for another one. After much deletion near a directory, a new file there took
    /// 240 µs instead of 8 µs.
    fn new_file_ms(&self, number: usize) -> anyhow::Result<f64> {
        let path = self.stage.root().join(format!("new-file-{number}"));
        let start = nanoseconds();
        File::create_new(path)?;
        Ok(elapsed_ms(start, nanoseconds()))
    }

    /// Plays a whole run, and measures the time to its payload's first instruction.
    pub(super) fn supervised_launch(
        &self,
        workspace: &Path,
        flags: &[&str],
    ) -> anyhow::Result<(String, f64)> {
        let start = nanoseconds();
        let run = self.start(workspace, &self.agent, "go", flags)?;
        self.wait(workspace, &run)?;
        let journal = std::fs::read_to_string(self.run_directory(&run).join("events.jsonl"))?;
        Ok((run, began_after_ms(start, &journal)?))
    }

    /// Starts the payload directly, without Caretaker or a sandbox.
    fn bare_launch(&self, workspace: &Path) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.agent);
        command.args(["--print", "--resume", "bare"]).env_clear().current_dir(workspace);
        let start = nanoseconds();
        began_after_ms(start, &output_of(command.stdin(Stdio::null()))?)
    }

    pub(super) fn run_directory(&self, run: &str) -> PathBuf {
        self.stage.root().join("state/runs").join(run)
    }

    /// Starts the bwrap command of that run directly: no gate, no verification, no supervisor.
    fn plain_launch(&self, workspace: &Path, run: &str) -> anyhow::Result<f64> {
        let state = StateRoot::new(self.stage.root().join("state"));
        let spec = RunDirectory::open(&state, run.parse()?)?.spec()?;
        // Recreate the directories that the run made and removed.
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
        let printed = output_of(&mut command)?;
        drop(status);
        std::fs::remove_dir(workspace.join(".cursor"))?;
        began_after_ms(start, &printed)
    }

    fn flood(&self, figures: &mut Figures, bytes: u64) -> anyhow::Result<()> {
        let workspace = self.stage.workspace("flood")?;
        let prompt = format!("```agent\nmisbehave huge-output {bytes}\nsay done\n```\n");
        let caretaker = best_seconds(3, || {
            // The limits would stop a flood.
            let unlimited = ["--journal", "none", "--disk", "none"];
            let run = self.start(&workspace, "simulated", &prompt, &unlimited)?;
            ensure!(self.wait(&workspace, &run)?, "the flood did not succeed");
            Ok(std::fs::remove_dir_all(self.run_directory(&run))?)
        })?;
        let file = self.stage.root().join("flood.out");
        let cat = best_seconds(3, || {
            let words = "simulated-agent --print --output-format stream-json --trust --force";
            let mut agent = self
                .stage
                .command(&workspace, &words.split(' ').collect::<Vec<_>>())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            agent.stdin.take().context("no stdin")?.write_all(prompt.as_bytes())?;
            let output = agent.stdout.take().context("no stdout")?;
            let cat = Command::new("cat").stdin(output).stdout(File::create(&file)?).status()?;
            ensure!(cat.success() && agent.wait()?.success());
            Ok(std::fs::remove_file(&file)?)
        })?;
        let title = format!("flood: {:.0} MB through a whole run", bytes as f64 / 1e6);
        let section = figures.section(title);
        section.row("caretaker run", caretaker, "s");
        section.row("the same agent | cat > file", cat, "s");
        section.row("ratio", caretaker / cat, "×").at_most(2.0);
        Ok(())
    }

    pub(super) fn tail(&self, figures: &mut Figures, title: &str) -> anyhow::Result<()> {
        let workspace = self.stage.workspace("tail")?;
        let run = self.start(&workspace, &self.agent, "events 400", &[])?;
        let mut tail = self
            .stage
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
        let section = figures.section(format!("{title}, {} events", latencies.len()));
        section.row("p50", quantile(latencies.clone(), 0.5), "ms").at_most(1.0);
        section.row("p99", quantile(latencies, 0.99), "ms").at_most(10.0);
        Ok(())
    }

    /// Undoes a run that removed half of the files, changed the other half, and added a tenth as many.
    fn undo(&self, figures: &mut Figures, n_files: usize) -> anyhow::Result<()> {
        let workspace = self.stage.workspace("undo")?;
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
            // The bench would also measure git's housekeeping in the background, which removes files that a sandbox
            // protects.
            git.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
            git.args(arguments).current_dir(&workspace).env("GIT_CONFIG_GLOBAL", "/dev/null");
            output_of(&mut git).with_context(|| format!("git {arguments:?} failed")).map(drop)
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
            let journal = std::fs::read_to_string(self.run_directory(run).join("events.jsonl"))?;
            let saved = journal.lines().find(|line| line.contains("\"workspace_saved\""));
            let saved: Value = serde_json::from_str(saved.context("it was not saved")?)?;
            saved["run"]["ms"].as_f64().context("no time")
        };
        let first = self.start(&workspace, &self.agent, "go", &[])?;
        self.wait(&workspace, &first)?;
        // Half of the files go, half of them change, and some are new.
        let script = format!(
            "n=0; while [ $n -lt {n_files} ]; do f=d$((n%100))/f$n; \
             if [ $((n%2)) = 0 ]; then echo $f; else echo changed $n > $f; fi; \
             if [ $((n%10)) = 0 ]; then echo new > new$n; fi; n=$((n+1)); done | xargs rm"
        );
        let prompt = format!("```agent\nshell {script}\nsay done\n```\n");
        let run = self.start(&workspace, "simulated", &prompt, &[])?;
        ensure!(self.wait(&workspace, &run)?, "the changes were not made");
        let timed =
            |words: &[&str]| best_seconds(1, || self.stage.output(&workspace, words).map(drop));
        let undo_s = timed(&["undo", &run])?;
        git(&["diff", "--quiet", "HEAD"]).context("the undo is not exact")?;
        let redo_s = timed(&["undo", &run, "--redo"])?;
        ensure!(!path(0).exists() && workspace.join("new0").exists(), "the redo is not exact");
        let git_s = best_seconds(1, || {
            git(&["checkout", "--force", "--quiet", "."])?;
            git(&["clean", "--force", "--quiet"])
        })?;
        let title = format!("undo: a workspace of {n_files} files, all of them changed");
        let section = figures.section(title);
        section.row("undo", undo_s, "s").at_most(3.0);
        section.row("undo of the undo", redo_s, "s").at_most(3.0);
        section.row("git checkout --force, git clean", git_s, "s");
        section.row("saved before the run: everything", saved_ms(&first)?, "ms");
        section.row("saved before the run: with nothing new", saved_ms(&run)?, "ms");
        Ok(())
    }
}

fn memory_file(content: &[u8]) -> anyhow::Result<OwnedFd> {
    let mut file = File::from(memfd_create("bench", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn elapsed_ms(start: u128, end: u128) -> f64 {
    end.saturating_sub(start) as f64 / 1e6
}

/// Returns the time from `start` until the payload reports its start.
fn began_after_ms(start: u128, output: &str) -> anyhow::Result<f64> {
    let (_, rest) = output.split_once("\"began_ns\":").context("the payload did not start")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(elapsed_ms(start, digits.parse()?))
}
