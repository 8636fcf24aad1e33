//! A run whose shim dies leaves files behind. The next command cleans them up, even if it does not start a run.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;

use super::process::Process;
use crate::stage::Stage;
use crate::stage::daemon_stage::DaemonStage;

/// Starts a run in a workspace without a `.cursor`, and kills its shim.
fn dead_run(stage: &Stage) -> String {
    let run = stage.detach("shell sleep 60", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    Process::shim(stage, &run).kill();
    run
}

/// Returns a run's files outside its own directory.
fn litter(stage: &Stage, run: &str) -> Vec<PathBuf> {
    let sockets = stage.root().join("run/caretaker").join(run);
    let places =
        [stage.workspace().join(".cursor"), sockets, stage.runs().join(run).join("sandbox.json")];
    places.into_iter().filter(|place| place.exists()).collect()
}

fn stage() -> Stage {
    let stage = Stage::new();
    fs::create_dir_all(stage.root().join("run")).unwrap();
    stage
}

#[test]
fn every_command_that_lists_runs_cleans_up_after_dead_shims() {
    for looks in [&["ps"] as &[&str], &["gc"], &["doctor"]] {
        let stage = stage();
        let run = dead_run(&stage);
        assert!(litter(&stage, &run).len() >= 2, "{looks:?}: {:?}", litter(&stage, &run));
        stage.output(looks);
        assert_eq!(litter(&stage, &run), [] as [PathBuf; 0], "{looks:?}");
        stage.assert_no_survivors("a run whose supervisor died");
    }
}

#[test]
fn a_daemon_cleans_up_after_dead_shims_when_it_starts() {
    let stage = DaemonStage::without_daemon(2);
    fs::create_dir_all(stage.root().join("run")).unwrap();
    let run = dead_run(&stage);
    assert!(litter(&stage, &run).len() >= 2, "{:?}", litter(&stage, &run));
    stage.start_daemon();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !litter(&stage, &run).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", litter(&stage, &run));
        std::thread::yield_now();
    }
}

#[test]
fn the_cleanup_keeps_files_that_are_in_use_or_not_ours() {
    let stage = stage();
    let dead = dead_run(&stage);
    // Meanwhile, the user put a file into the directory.
    fs::write(stage.workspace().join(".cursor/rules"), "mine").unwrap();
    let other = stage.home().join("other");
    fs::create_dir(&other).unwrap();
    let live = stage.detach("shell sleep 60", &["--workspace", other.to_str().unwrap()]);
    stage.wait_until(&live, |line| line["kind"] == "agent.tool_started");
    stage.output(&["ps"]);
    assert_eq!(litter(&stage, &dead), [stage.workspace().join(".cursor")]);
    assert!(
        other.join(".cursor").exists() && stage.root().join("run/caretaker").join(&live).exists()
    );
    let killed = stage.output(&["kill", "--now", &live]);
    assert!(killed.status.success());
    assert!(!other.join(".cursor").exists());
}
