//! Stops and time limits between "ready" and the release: a run that ends there never runs its agent.

use std::io::Write;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::stage::namespace::Namespace;
use crate::stage::{Stage, assert_exit};

/// A run that waits between "ready" and its release until [`Held::go_on`].
struct Held {
    stage: Stage,
    run: String,
}

impl Held {
    /// Starts a run whose bubblewrap waits for the test. Returns `None` if the shim would not trust this bubblewrap.
    fn start(flags: &[&str]) -> Option<Self> {
        let namespace = Namespace::with_mounts()?;
        let stage = Stage::new();
        let (held, go) = (stage.root().join("held"), stage.root().join("go"));
        for fifo in [&held, &go] {
            let made = std::process::Command::new("mkfifo").arg(fifo).status().unwrap();
            assert!(made.success());
        }
        // A call that does not start a run goes to the real bubblewrap.
        let bwrap = format!(
            "#!/bin/sh\n\
             case \" $* \" in *' --args '*) echo > '{}'; read -r _ < '{}' ;; esac\n\
             exec /usr/bin/bwrap \"$@\"\n",
            held.display(),
            go.display()
        );
        let prompt = "```agent\nshell touch it-ran\n```\n";
        let flags = [&["run", "--agent", "simulated", "--detach", prompt], flags].concat();
        let mut command = stage.caretaker(&flags);
        namespace.trust_bubblewrap(&stage, bwrap.as_bytes(), &mut command);
        let output = namespace.command(&[], &command).output().unwrap();
        assert_exit(&output, 0);
        // This read returns once bubblewrap has started.
        std::fs::read(&held).unwrap();
        let run = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Some(Self { stage, run })
    }

    fn go_on(&self) {
        let mut go = std::fs::OpenOptions::new().write(true).open(self.stage.root().join("go"));
        go.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn check_that_the_agent_never_ran(&self) {
        let kinds = self.stage.kinds(&self.run);
        assert!(!kinds.contains(&json!("released")), "{kinds:?}");
        let left: Vec<_> = std::fs::read_dir(self.stage.workspace()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        self.stage.assert_no_survivors("a run that was never released");
    }
}

#[test]
fn a_run_that_is_killed_before_its_release_never_runs_its_agent() {
    for flags in [&["kill"] as &[&str], &["kill", "--now"]] {
        let Some(held) = Held::start(&[]) else { return };
        let kill = held
            .stage
            .caretaker(&[flags, &[&held.run]].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        held.stage.wait_until(&held.run, |line| line["kind"] == "run.stop_requested");
        held.go_on();
        let killed = kill.wait_with_output().unwrap();
        assert_exit(&killed, 0);
        assert_eq!(held.stage.ended()["outcome"], "cancelled", "{flags:?}");
        assert_eq!(held.stage.output(&["wait", &held.run]).status.code(), Some(130));
        held.check_that_the_agent_never_ran();
    }
}

#[test]
fn a_run_whose_time_is_up_before_its_release_never_runs_its_agent() {
    let Some(held) = Held::start(&["--timeout", "500ms"]) else { return };
    held.stage.wait_until(&held.run, |line| line["kind"] == "run.limit_reached");
    held.go_on();
    assert_eq!(held.stage.output(&["wait", &held.run]).status.code(), Some(124));
    assert_eq!(held.stage.ended()["limit"]["limit"], "wall_clock");
    held.check_that_the_agent_never_ran();
}

#[test]
fn a_held_run_that_is_not_stopped_continues() {
    let Some(held) = Held::start(&[]) else { return };
    held.go_on();
    assert_eq!(held.stage.output(&["wait", &held.run]).status.code(), Some(0));
    assert!(held.stage.workspace().join("it-ran").exists());
}

#[test]
fn the_clock_also_ends_a_run_that_waits_for_its_turn() {
    let stage = Stage::new();
    let holder = stage.detach("shell sleep 60", &[]);
    let output = stage.play("say never", &["--wait", "--timeout", "200ms"]);
    assert_exit(&output, 124);
    let ended = stage.ended();
    assert_eq!(ended["why"], "the run took longer than 0.2 s, while it waited");
    assert!(stage.output(&["kill", "--now", &holder]).status.success());
}

#[test]
fn a_shim_that_gets_no_run_ends_with_the_command_that_started_it() {
    let stage = Stage::new();
    let prompt = stage.root().join("prompt");
    assert!(std::process::Command::new("mkfifo").arg(&prompt).status().unwrap().success());
    let flags = ["run", "--agent", "simulated", "--file", prompt.to_str().unwrap()];
    let mut command = stage.caretaker(&flags).stdout(Stdio::null()).spawn().unwrap();
    // The command opens its prompt after it has made all checks.
    let _prompt = std::fs::OpenOptions::new().write(true).open(&prompt).unwrap();
    assert!(stage.processes().iter().any(|(_, process)| process.contains(" shim ")));
    command.kill().unwrap();
    command.wait().unwrap();
    stage.assert_no_survivors("after the command was killed");
    assert!(!stage.runs().exists(), "there never was a run");
}

#[test]
fn a_run_that_is_refused_after_its_shim_has_started_leaves_nothing() {
    let stage = Stage::new();
    let shown = stage.workspace();
    // The last checks find this, when the shim is already there.
    let flags = ["run", "--agent", "simulated", "--expose", shown.to_str().unwrap(), "say hello"];
    let refused = stage.output(&flags);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("workspace"), "{refused:?}");
    assert_ne!(refused.status.code(), Some(0));
    stage.assert_no_survivors("after the refusal");
    assert!(!stage.runs().exists(), "there never was a run");
}
