//! Kills of anything at any moment. `KILL_ROUNDS` plays another number of rounds, and `KILL_SEED` other ones:
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
use crate::daemon_stage::DaemonStage;
use crate::stage::{Entry, stderr};

const ROUNDS: u64 = 9;
const LANES: u64 = 3;
const SEED: u64 = 0x5eed_0014;
/// A run that nobody kills takes about as long on a machine with other work.
const LONGEST_MOMENT_MS: u64 = 600;
/// What the agent says, one line each.
const N_LINES: usize = 12;
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

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

/// One session of rounds, with a daemon and workspaces of its own.
struct Lane {
    stage: DaemonStage,
    dice: Dice,
    /// What to say when something is wrong.
    what: String,
    n_kills: u64,
}

#[test]
fn random_kills_leave_no_process_no_gap_and_no_workspace_that_cannot_be_used() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = given("KILL_ROUNDS").unwrap_or(ROUNDS);
    let seed = given("KILL_SEED").unwrap_or(SEED);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let n_rounds = rounds / LANES + u64::from(lane < rounds % LANES);
                scope.spawn(move || Lane::new(seed + lane).play(n_rounds))
            })
            .collect();
        let n_kills: u64 = lanes.into_iter().map(|lane| lane.join().unwrap()).sum();
        eprintln!("{rounds} rounds, seed {seed:#x}: {n_kills} processes were killed");
    });
}

/// A tool after each line: without one the agent would say them all at once.
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

    /// A run without the daemon; returns as soon as it is there, long before its command does.
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
            assert!(Instant::now() < deadline, "{}: no run appears", self.what);
            std::thread::yield_now();
        }
    }

    /// Kills one or two processes of a run, each at a moment of its own. Returns the first processes of sandboxes that
    /// were seen on the way.
    fn kill_at_random(&mut self, run: &str) -> Vec<Process> {
        let mut firsts = Vec::new();
        for _ in 0..=self.dice.below(2) {
            // The test waits for nothing here: a kill at any moment is its subject.
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
            // Where it is not there yet, whoever is to start it dies.
            if let Some(process) = victim.or(chain.last()) {
                self.what.push_str(&format!(", {:?} of {run}", VICTIMS[index]));
                process.signal(rustix::process::Signal::KILL);
                self.n_kills += 1;
            }
        }
        firsts
    }

    /// Shim, outer bubblewrap, the first process of the sandbox, agent: as many of them as there are.
    fn chain(&self, run: &str) -> Vec<Process> {
        let lock = self.stage.runs().join(run).join("run.lock");
        let note: Option<Value> =
            fs::read(lock).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let shim = note.and_then(|note| i32::try_from(note["pid"].as_i64()?).ok());
        // A shim that is over may have left its number to another process.
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
        // Of a run that was lost, the kernel takes the sandbox along, and may take a moment.
        if has_ended {
            assert!(firsts.iter().all(Process::has_ended), "{what}: over, and its sandbox lives");
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

    /// Neither of the run nor of anything else in its workspace.
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

    /// Every event once and in order, and what the agent said without a gap.
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
            assert_eq!(said.len(), N_LINES, "{what}: a success that lacks lines");
        }
    }
}
