//! The outer bubblewrap dies while the agent writes without a pause. The journal has every line that the agent wrote
//! before it died, and no line after the end.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;

use super::process::Process;
use super::stand_in::stand_in;
use crate::stage::namespace::Namespace;
use crate::stage::{Stage, assert_exit, stderr};

/// More lines than the shim reads at once, and fewer than the pipe holds.
const A_BACKLOG: usize = 4000;

/// Prints numbered lines forever, and writes each number to a file once the line is in the pipe.
const CHATTER: &str = "\
n=0
while :; do
  n=$((n+1))
  echo '{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"'$n'\",\"of\":\"an agent that always has more to say\"}'
  echo $n >> notes
done";

/// The fate of the agent when the outer bubblewrap dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sandbox {
    /// The kernel kills it.
    Bound,
    /// It lives on until the shim kills it, as in the moments before bubblewrap sets its death signal.
    Unbound,
    /// There is no bubblewrap. The keeper dies instead, and the agent lives on until the shim kills it.
    Off,
}

impl Sandbox {
    /// Returns shell code that changes the options before the stand-in becomes bubblewrap.
    fn becomes(self, stage: &Stage) -> String {
        let options = stage.root().join("options");
        let options = options.display();
        match self {
            Self::Bound | Self::Off => String::new(),
            Self::Unbound => format!(
                "tr '\\0' '\\n' <&3 | grep -vx -e --die-with-parent | tr '\\n' '\\0' > '{options}'; \
                 exec 3<'{options}'"
            ),
        }
    }
}

/// A run whose agent never stops printing.
struct Chatter {
    stage: Stage,
    run: String,
    shim: Process,
    /// The process that dies.
    outer: Process,
    /// The process that may outlive `outer`. The agent dies with this process.
    first: Process,
}

impl Chatter {
    fn start(sandbox: Sandbox) -> Option<Self> {
        Self::start_with(sandbox, CHATTER)
    }

    /// Returns `None` if the shim would not trust a stand-in for bubblewrap.
    fn start_with(sandbox: Sandbox, does: &str) -> Option<Self> {
        let namespace = Namespace::with_mounts()?;
        let stage = Stage::new();
        let agent = agent_that(&stage, does);
        let flags: &[&str] =
            if sandbox == Sandbox::Off { &["--sandbox", "off", "--force"] } else { &[] };
        let args = ["run", "--agent", &agent, "--detach", "go"];
        let mut command = stage.caretaker(&[&args, flags].concat());
        command.env("CURSOR_API_KEY", "any");
        let bwrap = stand_in(&sandbox.becomes(&stage));
        namespace.trust_bubblewrap(&stage, bwrap.as_bytes(), &mut command);
        let output = namespace.command(&[], &command).output().unwrap();
        assert_exit(&output, 0);
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        stage.wait_until(&run, |line| line["kind"] == "agent.init");
        let (shim, first) = (Process::shim(&stage, &run), Process::first(&stage, &run));
        let (outer, first) = match sandbox {
            Sandbox::Off => {
                let agent = first.any_child().unwrap();
                (first, agent)
            }
            Sandbox::Bound | Sandbox::Unbound => (first.parent(), first),
        };
        Some(Self { stage, run, shim, outer, first })
    }

    /// Returns the number of lines that the agent has written.
    fn n_handed_over(&self) -> usize {
        let notes = std::fs::read(self.stage.workspace().join("notes")).unwrap_or_default();
        notes.iter().filter(|byte| **byte == b'\n').count()
    }

    fn wait_for_more(&self, n_lines: usize) {
        let until = self.n_handed_over() + n_lines;
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.n_handed_over() < until {
            assert!(Instant::now() < deadline, "the agent stopped writing");
            std::thread::yield_now();
        }
    }

    fn check(&self, what: &str) {
        let waited = self.stage.output(&["wait", &self.run, "--timeout", "60s"]);
        let lives = !self.first.has_ended();
        // Leave no process behind, even if the test fails.
        self.first.signal(Signal::KILL);
        assert!(!lives, "{what}: the run is over but its sandbox is alive: {}", stderr(&waited));
        let n_handed_over = self.n_handed_over();
        let journal = self.stage.journal(&self.run);
        let said: Vec<_> =
            journal.iter().filter_map(|entry| entry.line["agent"]["text"].as_str()).collect();
        let counted: Vec<_> = (1..=said.len()).map(|number| number.to_string()).collect();
        assert!(said == counted, "{what}: lines are missing");
        // The agent may have died between writing a line and counting it.
        let lines = n_handed_over..=n_handed_over + 1;
        assert!(lines.contains(&said.len()), "{what}: {} lines of {lines:?}", said.len());
        let ends = journal.iter().position(|entry| entry.line["run"]["kind"] == "ended");
        assert_eq!(ends, Some(journal.len() - 1), "{what}: the end is the last event");
        assert_eq!(self.stage.ended()["outcome"], "failed", "{what}");
        self.stage.assert_no_survivors(what);
    }
}

/// Writes an agent that says hello and then runs this shell code.
fn agent_that(stage: &Stage, does: &str) -> String {
    let agent = stage.home().join("chatter");
    let program =
        format!("#!/bin/sh\necho '{{\"type\":\"system\",\"subtype\":\"init\"}}'\n{does}\n");
    std::fs::write(&agent, program).unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    agent.to_str().unwrap().to_owned()
}

#[test]
fn the_journal_has_everything_that_an_agent_wrote_before_it_died_with_bubblewrap() {
    for sandbox in [Sandbox::Bound, Sandbox::Unbound, Sandbox::Off] {
        let Some(chatter) = Chatter::start(sandbox) else { return };
        chatter.wait_for_more(A_BACKLOG);
        chatter.outer.kill();
        chatter.check(&format!("{sandbox:?}"));
    }
}

#[test]
fn a_shim_that_finds_bubblewrap_dead_reads_the_rest_of_the_output() {
    for sandbox in [Sandbox::Bound, Sandbox::Unbound, Sandbox::Off] {
        let Some(chatter) = Chatter::start(sandbox) else { return };
        chatter.shim.stop();
        chatter.wait_for_more(A_BACKLOG);
        chatter.outer.kill();
        if sandbox != Sandbox::Bound {
            chatter.wait_for_more(1);
        }
        chatter.shim.signal(Signal::CONT);
        chatter.check(&format!("{sandbox:?}, and the shim was stopped"));
    }
}

#[test]
fn an_agent_that_floods_its_output_does_not_outlive_its_bubblewrap() {
    for sandbox in [Sandbox::Bound, Sandbox::Unbound, Sandbox::Off] {
        let flood = Chatter::start_with(sandbox, "exec yes '{\"type\":\"thinking\"}'");
        let Some(flood) = flood else { return };
        flood.outer.kill();
        let waited = flood.stage.output(&["wait", &flood.run, "--timeout", "30s"]);
        let lives = !flood.first.has_ended();
        flood.first.signal(Signal::KILL);
        assert!(!lives, "{sandbox:?}: the shim still reads: {}", stderr(&waited));
        assert_eq!(flood.stage.ended()["outcome"], "failed", "{sandbox:?}");
    }
}
