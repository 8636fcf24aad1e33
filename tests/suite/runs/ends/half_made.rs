//! The outer bubblewrap dies while it sets up a sandbox. Its child does not yet die with it, but the run must not end
//! before the child is dead.

use std::fs::File;
use std::io::Write;
use std::process::Command;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use super::process::Process;
use super::stand_in::stand_in;
use crate::sandbox::strict::{as_user, give_away};
use crate::stage::namespace::Namespace;
use crate::stage::{Stage, assert_exit};

/// The state of the sandbox when its outer bubblewrap dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The shim knows the child, which is setting up the inside.
    SetsUp,
    /// The outer bubblewrap has not yet reported its child, and the child waits for it.
    Waits,
    /// The shim never learns of the child, which is setting up the inside.
    Unheard,
    /// There is no child yet, and the outer bubblewrap hangs.
    Alone,
}

impl Point {
    /// The shell command with which the stand-in becomes a bubblewrap that stops at this point. Bubblewrap reports its
    /// child on descriptor 4. Nothing arrives on descriptor 61 until the test writes to it.
    fn becomes(self) -> &'static str {
        match self {
            Self::SetsUp => "exec /usr/bin/bwrap --block-fd 61 \"$@\"",
            // The pipe is full, so bubblewrap cannot report its child. The shim's own pipe stays open, so that the shim
            // waits.
            Self::Waits => {
                "exec 60>&4 4<>\"$status\"; head -c 65536 /dev/zero >&4; exec /usr/bin/bwrap \"$@\""
            }
            Self::Unheard => "exec /usr/bin/bwrap --block-fd 61 \"$@\" 60>&4 4>/dev/null",
            Self::Alone => "kill -STOP $$",
        }
    }
}

/// A run whose sandbox setup is held at a [`Point`].
struct HalfMade {
    stage: Stage,
    owner: Option<u32>,
    run: String,
    outer: Process,
    first: Option<Process>,
    go: File,
}

impl HalfMade {
    /// Returns `None` if the shim would not trust a stand-in for bubblewrap.
    fn start(point: Point, owner: Option<u32>) -> Option<Self> {
        let namespace = Namespace::with_mounts()?;
        let stage = Stage::new();
        let [held, go, status] = ["held", "go", "status"].map(|name| stage.root().join(name));
        for fifo in [&held, &go, &status] {
            assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
        }
        let bwrap = stand_in(&format!(
            "status='{}'; echo $$ > '{}'; exec 61<>'{}'; {}",
            status.display(),
            held.display(),
            go.display(),
            point.becomes()
        ));
        let prompt = "```agent\nshell touch it-ran\nshell sleep 60\n```\n";
        let mut command = stage.caretaker(&["run", "--agent", "simulated", "--detach", prompt]);
        namespace.trust_bubblewrap(&stage, bwrap.as_bytes(), &mut command);
        if let Some(owner) = owner {
            std::fs::create_dir_all(stage.root().join("state")).unwrap();
            give_away(&stage.root(), owner);
            // The shim trusts only files that root owns.
            give_away(&stage.root().join("bin"), 0);
        }
        let output = namespace.command(&[], &command).output().unwrap();
        assert_exit(&output, 0);
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let outer = std::fs::read_to_string(&held).unwrap().trim().parse().unwrap();
        let outer = Process::open(outer);
        let first = (point != Point::Alone).then(|| outer.wait_for_child("bwrap"));
        let go = File::options().read(true).write(true).open(&go).unwrap();
        Some(Self { stage, owner, run, outer, first, go })
    }

    /// Kills the outer bubblewrap and lets its child continue, as if there had been no stand-in.
    fn kill_the_outer(&mut self) {
        self.outer.kill();
        self.go.write_all(b"gogogogo").unwrap();
    }

    fn check_that_nothing_lives(&self) {
        let mut wait = self.stage.caretaker(&["wait", &self.run, "--timeout", "60s"]);
        let waited = match self.owner {
            Some(owner) => as_user(owner, &wait).output().unwrap(),
            None => wait.output().unwrap(),
        };
        let first_lives = self.first.as_ref().is_some_and(|first| !first.has_ended());
        let outer_lives = !self.outer.has_ended();
        // Leave no process behind, even if the test fails.
        self.first.iter().chain([&self.outer]).for_each(|left| left.signal(Signal::KILL));
        assert!(!first_lives, "the run is over but its sandbox is alive");
        assert!(!outer_lives, "the run is over but its bubblewrap is alive");
        assert_exit(&waited, 125);
        let kinds = self.stage.kinds(&self.run);
        assert!(!kinds.contains(&json!("released")), "{kinds:?}");
        assert!(!self.stage.workspace().join("it-ran").exists(), "the agent ran");
        assert_eq!(self.stage.ended()["outcome"], "sandbox_failed");
        self.stage.assert_no_survivors("a run whose bubblewrap died");
        let next = self.stage.play("say I am the next one.", &[]);
        assert_exit(&next, 0);
    }
}

const ORDINARY_USER: u32 = 65534;

#[test]
fn a_run_whose_bubblewrap_dies_while_its_child_sets_up_is_over_when_the_child_is_dead() {
    for owner in owners() {
        let Some(mut half_made) = HalfMade::start(Point::SetsUp, owner) else { return };
        half_made.kill_the_outer();
        half_made.check_that_nothing_lives();
    }
}

#[test]
fn a_run_whose_bubblewrap_dies_before_its_child_may_begin_is_over_when_the_child_is_dead() {
    for owner in owners() {
        let Some(mut half_made) = HalfMade::start(Point::Waits, owner) else { return };
        half_made.kill_the_outer();
        half_made.check_that_nothing_lives();
    }
}

#[test]
fn a_run_whose_bubblewrap_dies_before_the_shim_heard_of_its_child_is_over_when_the_child_is_dead() {
    for owner in owners() {
        let Some(mut half_made) = HalfMade::start(Point::Unheard, owner) else { return };
        half_made.kill_the_outer();
        half_made.check_that_nothing_lives();
    }
}

#[test]
fn a_run_whose_bubblewrap_hangs_before_it_has_a_child_is_over_when_bubblewrap_is_dead() {
    for owner in owners() {
        let Some(half_made) = HalfMade::start(Point::Alone, owner) else { return };
        half_made.check_that_nothing_lives();
    }
}

#[test]
fn a_run_whose_sandbox_dies_and_leaves_a_stuck_bubblewrap_is_over_when_bubblewrap_is_dead() {
    for owner in owners() {
        let Some(half_made) = HalfMade::start(Point::SetsUp, owner) else { return };
        half_made.outer.stop();
        half_made.first.iter().for_each(Process::kill);
        half_made.check_that_nothing_lives();
    }
}

#[test]
fn a_run_whose_bubblewrap_is_stuck_is_over_once_its_sandbox_is_dead() {
    let stage = Stage::new();
    let run = stage.detach("shell sleep 60", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let outer = Process::first(&stage, &run).parent();
    outer.stop();
    let killed = stage.caretaker(&["kill", "--now", &run]).spawn().unwrap();
    let waited = stage.output(&["wait", &run, "--timeout", "30s"]);
    // Leave no process behind, even if the test fails.
    outer.signal(Signal::KILL);
    assert!({ killed }.wait().unwrap().success());
    assert_exit(&waited, 130);
    stage.assert_no_survivors("a run whose bubblewrap was stopped");
}

/// Returns the current user, with control groups if it is root, and an ordinary user if the test can become one.
fn owners() -> Vec<Option<u32>> {
    match rustix::process::getuid().is_root() {
        true => vec![None, Some(ORDINARY_USER)],
        false => vec![None],
    }
}
