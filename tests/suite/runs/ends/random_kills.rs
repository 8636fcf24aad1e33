//! Kills random processes at random moments. `KILL_ROUNDS` sets the number of rounds, and `KILL_SEED` chooses different
//! rounds:
//!
//! ```text
//!   KILL_ROUNDS=300 cargo test -p suite random_kills -- --nocapture
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::process::Process;
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::dice::{Dice, number_from};
use crate::stage::{Entry, stderr};

const ROUNDS: u64 = 9;
const LANES: u64 = 3;
const SEED: u64 = 0x5eed_0014;
/// On a busy machine, a run without a kill takes about this long.
const LONGEST_MOMENT_MS: u64 = 600;
/// The number of lines that the agent prints.
const N_LINES: usize = 12;
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Shim,
    Outer,
    First,
    Agent,
    Daemon,
}

const VICTIMS: [Victim; 5] =
    [Victim::Shim, Victim::Outer, Victim::First, Victim::Agent, Victim::Daemon];

/// A series of rounds, with its own daemon and workspaces.
struct Lane {
    stage: DaemonStage,
    dice: Dice,
    /// Describes the round in failure messages.
    what: String,
    n_kills: u64,
}

#[test]
fn random_kills_leave_no_process_no_gap_and_no_unusable_workspace() {
    let rounds = number_from("KILL_ROUNDS", ROUNDS);
    let seed = number_from("KILL_SEED", SEED);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let n_rounds = rounds / LANES + u64::from(lane < rounds % LANES);
                scope.spawn(move || Lane::new(seed + lane).play(n_rounds))
            })
            .collect();
        let n_kills: u64 = lanes.into_iter().map(|lane| lane.join().unwrap()).sum();
        eprintln!("{rounds} rounds, seed {seed:#x}: {n_kills} processes killed");
    });
}

/// Calls a tool after each line, because otherwise the agent would print all lines at once.
fn script() -> String {
    (1..=N_LINES).map(|line| format!("say line {line}.\nshell true\n")).collect()
}

impl Lane {
    fn new(seed: u64) -> Self {
        let what = format!("seed {seed:#x}");
        Self { stage: DaemonStage::new(2), dice: Dice(seed), what, n_kills: 0 }
    }

    fn play(mut self, n_rounds: u64) -> u64 {
        let seed = self.what.clone();
        for round in 0..n_rounds {
            self.what = format!("{seed}, round {round}");
            for workspace in ["direct", "queued"] {
                let run = match workspace {
                    "direct" => self.start_direct(workspace),
                    _ => self.stage.queue(workspace, &script(), &[]),
                };
                let firsts = self.kill_at_random(&run);
                self.check(&run, workspace, &firsts);
            }
        }
        self.n_kills
    }

    /// Starts a run without the daemon. Returns as soon as the run exists, long before its command does.
    fn start_direct(&self, workspace: &str) -> String {
        let known = self.stage.run_ids();
        let workspace = self.stage.new_workspace(workspace);
        let flags = ["--direct", "--detach", "--workspace", workspace.to_str().unwrap()];
        let mut command = self.stage.start_play(&script(), &flags);
        std::thread::spawn(move || command.wait());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let fresh = self.stage.run_ids().into_iter().find(|run| !known.contains(run));
            if let Some(run) = fresh {
                return run;
            }
            assert!(Instant::now() < deadline, "{}: no run appeared", self.what);
            std::thread::yield_now();
        }
    }

    /// Kills one or two processes of a run, each at a random moment. Returns the first process of each sandbox that it
    /// saw.
    fn kill_at_random(&mut self, run: &str) -> Vec<Process> {
        let mut firsts = Vec::new();
        for _ in 0..=self.dice.below(2) {
            // This sleeps on purpose, so that the kill comes at a random moment.
            std::thread::sleep(Duration::from_millis(self.dice.below(LONGEST_MOMENT_MS)));
            let index = usize::try_from(self.dice.below(VICTIMS.len() as u64)).unwrap();
            let chain = self.chain(run);
            firsts.extend(chain.get(2).and_then(|first| Process::find(first.pid)));
            let victim = match VICTIMS[index] {
                Victim::Daemon => {
                    self.stage.kill_daemon();
                    self.stage.start_daemon();
                    self.n_kills += 1;
                    continue;
                }
                Victim::Shim => chain.first(),
                Victim::Outer => chain.get(1),
                Victim::First => chain.get(2),
                Victim::Agent => chain.get(3),
            };
            // If the victim does not exist yet, kill the process that would start it.
            if let Some(process) = victim.or(chain.last()) {
                self.what.push_str(&format!(", {:?} of {run}", VICTIMS[index]));
                process.signal(rustix::process::Signal::KILL);
                self.n_kills += 1;
            }
        }
        firsts
    }

    /// Returns the run's processes that exist now: shim, outer bubblewrap, the sandbox's first process, agent.
    fn chain(&self, run: &str) -> Vec<Process> {
        let lock = self.stage.runs().join(run).join("run.lock");
        let note: Option<Value> =
            fs::read(lock).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let shim = note.and_then(|note| i32::try_from(note["pid"].as_i64()?).ok());
        // The pid of an ended shim may now belong to another process.
        let is_shim = |process: &Process| process.command().contains(run);
        let Some(shim) = shim.and_then(Process::find).filter(is_shim) else { return Vec::new() };
        let mut chain = vec![shim];
        while let Some(child) = chain.last().and_then(|last| last.child_named("bwrap")) {
            chain.push(child);
        }
        if let Some(agent) = chain.last().filter(|_| chain.len() > 2).and_then(Process::any_child) {
            chain.push(agent);
        }
        chain
    }

    fn check(&self, run: &str, workspace: &str, firsts: &[Process]) {
        let what = &self.what;
        let waited = self.stage.output(&["wait", run, "--timeout", "2m"]);
        assert_ne!(waited.status.code(), None, "{what}");
        let journal = self.stage.journal(run);
        let has_ended = journal.last().is_some_and(|last| last.line["run"]["kind"] == "ended");
        // When a run is lost, the kernel kills its sandbox, which may take a moment.
        if has_ended {
            assert!(
                firsts.iter().all(Process::has_ended),
                "{what}: the run is over but its sandbox is alive"
            );
        } else {
            assert_eq!(waited.status.code(), Some(5), "{what}: {}", stderr(&waited));
        }
        let workspace = self.stage.home().join(workspace);
        self.check_that_nothing_lives(run, &workspace);
        self.check_journal(run, &journal);
        let flags = ["--workspace", workspace.to_str().unwrap()];
        let next = self.stage.play("say I am the next one.", &flags);
        assert_eq!(next.status.code(), Some(0), "{what}: {}", stderr(&next));
        let left: Vec<PathBuf> =
            fs::read_dir(&workspace).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [] as [PathBuf; 0], "{what}: litter");
    }

    /// Checks that no process of the run, or of anything else in its workspace, is alive.
    fn check_that_nothing_lives(&self, run: &str, workspace: &Path) {
        let deadline = Instant::now() + PATIENCE;
        let marks = [run.to_owned(), format!("--workspace {}", workspace.display())];
        loop {
            let mut living = self.stage.processes();
            living.retain(|(_, command)| {
                !command.contains(" wait ") && marks.iter().any(|mark| command.contains(mark))
            });
            if living.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{}: still alive: {living:?}", self.what);
            std::thread::yield_now();
        }
    }

    /// Checks that the journal has every event once and in order, and that no line of the agent is missing.
    fn check_journal(&self, run: &str, journal: &[Entry]) {
        let what = &self.what;
        let numbers: Vec<u64> = journal.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>(), "{what}");
        let text = fs::read_to_string(self.stage.journal_path(run)).unwrap();
        let said = text.lines().filter(|line| line.contains("\"agent\":{\"type\":\"assistant\""));
        let said: Vec<&str> = said.filter(|line| line.contains("line ")).collect();
        for (number, line) in said.iter().enumerate() {
            let expected = format!("\"line {}.\"", number + 1);
            assert!(line.contains(&expected), "{what}: not {expected}: {line}");
        }
        let kinds =
            |kind: &str| journal.iter().filter(|entry| entry.line["run"]["kind"] == kind).count();
        assert!(kinds("attempt") <= 1 && kinds("released") <= 1 && kinds("ended") <= 1, "{what}");
        let ended = journal.last().map(|last| last.line["run"].clone()).unwrap();
        if ended["outcome"] == "succeeded" {
            assert_eq!(said.len(), N_LINES, "{what}: the run succeeded, but lines are missing");
        }
    }
}
