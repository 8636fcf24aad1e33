//! Every layout of an installed agent works, and an update on the host takes nothing away from a run.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::stage::daemon_stage::DaemonStage;
use crate::stage::install::{Install, log_in};
use crate::stage::{Stage, assert_exit, stderr, stdout};

const OLD: &str = "2026.10.01-e373342";
const NEW: &str = "2026.11.02-18-00-12-6f5a2cf";
/// Waits until the test creates `go`.
const WAIT_FOR_GO: &str = "shell while [ ! -e go ]; do sleep 0.02; done";

fn spec(stage: &Stage, run: &str) -> Value {
    serde_json::from_slice(&fs::read(stage.runs().join(run).join("spec.json")).unwrap()).unwrap()
}

fn latest(stage: &Stage) -> String {
    stage.run_ids().pop().expect("the stage has a run")
}

fn version(stage: &Stage) -> String {
    spec(stage, &latest(stage))["agent"]["version"].as_str().unwrap().to_owned()
}

/// The versions that Caretaker keeps.
fn kept(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.root().join("state/agents")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn run(stage: &Stage, script: &str, flags: &[&str]) -> Output {
    let prompt = format!("```agent\n{script}\n```\n");
    stage.output(&[&["run", &prompt], flags].concat())
}

/// The script of a run that uses all files of its own version, and writes the version into `out`.
fn uses_everything(install: &Install) -> String {
    let launcher = install.launcher();
    format!("shell {} --version > out\nsay done", launcher.display())
}

fn out(stage: &Stage) -> String {
    fs::read_to_string(stage.workspace().join("out")).unwrap().trim().to_owned()
}

#[test]
fn every_layout_is_shown_as_a_whole_and_none_can_be_written() {
    let stage = Stage::new();
    log_in(&stage);
    let elsewhere = |below: &str| Install::at(&stage.root().join(below), OLD);
    for (install, version) in [
        (Install::version(&stage, NEW), NEW),
        (Install::version(&stage, "latest"), "latest"),
        (elsewhere("home/.cache/registry/cursor/dist-package"), OLD),
        (elsewhere("opt/cursor-agent"), OLD),
    ] {
        let place = install.directory().display();
        let script = format!(
            "shell echo x >> {place}/index.js; rm {place}/node; true\n{}",
            uses_everything(&install)
        );
        let launcher = install.launcher();
        let done = run(&stage, &script, &["--agent", launcher.to_str().unwrap()]);
        assert_exit(&done, 0);
        assert_eq!(out(&stage), version, "{place}");
        assert_eq!(self::version(&stage), version, "{place}");
        assert_eq!(fs::read_to_string(install.directory().join("index.js")).unwrap(), "// index\n");
    }
    // Other files beside a program stay hidden.
    let tool = elsewhere("home/tools");
    fs::remove_file(tool.directory().join("index.js")).unwrap();
    let launcher = tool.launcher();
    run(&stage, "say never", &["--agent", launcher.to_str().unwrap()]);
    let exposed = &spec(&stage, &latest(&stage))["agent"]["expose"];
    assert_eq!(exposed, &serde_json::json!([launcher]));
}

#[test]
fn a_run_keeps_its_version_when_an_update_removes_it() {
    let stage = Stage::new();
    log_in(&stage);
    let old = Install::version(&stage, OLD);
    let script = format!("{WAIT_FOR_GO}\n{}", uses_everything(&old));
    let prompt = format!("```agent\n{script}\n```\n");
    let run = crate::stage::printed(&stage.output(&["run", "--detach", &prompt]));
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    Install::version(&stage, NEW);
    old.remove();
    fs::write(stage.workspace().join("go"), "").unwrap();
    assert_exit(&stage.output(&["wait", &run]), 0);
    assert_eq!(out(&stage), OLD);
}

#[test]
fn an_update_in_place_changes_nothing_for_a_run() {
    let stage = Stage::new();
    log_in(&stage);
    let place = stage.root().join("opt/cursor-agent");
    let old = Install::at(&place, OLD);
    let script = format!("```agent\n{WAIT_FOR_GO}\n{}\n```\n", uses_everything(&old));
    let launcher = old.launcher();
    let flags = ["run", "--detach", "--agent", launcher.to_str().unwrap(), &script];
    let run = crate::stage::printed(&stage.output(&flags));
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    Install::at(&place, NEW);
    fs::write(stage.workspace().join("go"), "").unwrap();
    assert_exit(&stage.output(&["wait", &run]), 0);
    assert_eq!(out(&stage), OLD);
    // The session continues with the version that is there now, and the run says so.
    let session = stage.session_of(&run);
    let resumed =
        stage.output(&["resume", &session, &format!("```agent\n{}\n```", uses_everything(&old))]);
    assert_exit(&resumed, 0);
    assert_eq!((out(&stage).as_str(), version(&stage).as_str()), (NEW, NEW));
    let said = stderr(&resumed);
    assert!(
        said.contains(&format!(
            "note: the agent was updated: the last run of this session had {OLD}"
        )),
        "{said}"
    );
}

#[test]
fn a_queued_run_has_the_version_of_the_moment_when_it_was_queued() {
    let stage = DaemonStage::new(3);
    log_in(&stage);
    let old = Install::version(&stage, OLD);
    assert_exit(&stage.output(&["queue", "pause"]), 0);
    let prompt = format!("```agent\n{}\n```\n", uses_everything(&old));
    let run = crate::stage::printed(&stage.output(&["run", "--detach", &prompt]));
    Install::version(&stage, NEW);
    old.remove();
    // Another run with the new version does not take the old one away.
    let other = stage.new_workspace("other");
    let flags =
        ["run", "--detach", "--workspace", other.to_str().unwrap(), "```agent\nsay hi\n```"];
    assert_exit(&stage.output(&flags), 0);
    assert_eq!(kept(&stage).len(), 2);
    assert_exit(&stage.output(&["queue", "resume"]), 0);
    assert_eq!(stage.wait_for_end(&run), Some(0));
    assert_eq!(out(&stage), OLD);
}

#[test]
fn a_session_whose_version_is_gone_continues_with_the_present_one_and_says_so() {
    let stage = Stage::new();
    log_in(&stage);
    let old = Install::version(&stage, OLD);
    assert_exit(&run(&stage, "say hi", &[]), 0);
    let session = stage.session_of(&latest(&stage));
    let new = Install::version(&stage, NEW);
    // While the old version is there, the session keeps it.
    assert_exit(&stage.output(&["resume", &session, "```agent\nsay on\n```"]), 0);
    assert_eq!(version(&stage), OLD);
    old.remove();
    let prompt = format!("```agent\n{}\n```\n", uses_everything(&new));
    let resumed = stage.output(&["resume", &session, &prompt]);
    assert_exit(&resumed, 0);
    let said = stderr(&resumed);
    let note = format!(
        "note: the agent was updated: the last run of this session had {OLD}, which is gone; this run has {NEW}\n"
    );
    assert!(said.contains(&note), "{said}");
    assert_eq!((version(&stage).as_str(), out(&stage).as_str()), (NEW, NEW));
    // An agent in another place is not an update.
    let other = Install::at(&stage.root().join("opt/cursor-agent"), OLD);
    new.remove();
    let bin = stage.home().join(".local/bin/cursor-agent");
    fs::remove_file(&bin).unwrap();
    std::os::unix::fs::symlink(other.launcher(), bin).unwrap();
    let refused = stage.output(&["resume", &session, "go on"]);
    assert_exit(&refused, 127);
    assert!(stderr(&refused).contains("--widen agent"), "{}", stderr(&refused));
}

#[test]
fn a_version_that_no_run_needs_goes_when_the_next_one_comes_or_with_gc() {
    let stage = Stage::new();
    log_in(&stage);
    let old = Install::version(&stage, OLD);
    assert_exit(&run(&stage, "say hi", &[]), 0);
    let first = kept(&stage);
    assert_eq!(first.len(), 1);
    assert_exit(&run(&stage, "say hi", &[]), 0);
    assert_eq!(kept(&stage), first, "each version is kept once");
    Install::version(&stage, NEW);
    old.remove();
    assert_exit(&run(&stage, "say hi", &[]), 0);
    let second = kept(&stage);
    assert!(second.len() == 1 && second != first, "{second:?}");
    let gc = |flags: &[&str]| {
        let gc = stage.output(&[&["gc", "--older-than", "30d"], flags].concat());
        assert_exit(&gc, 0);
        (stdout(&gc) + &stderr(&gc)).replace(second[0].to_str().unwrap(), "<kept>")
    };
    let would = "note: a version of the agent that no run needs would be deleted: <kept>\n";
    assert_eq!(gc(&[]), format!("{would}dry run; pass --yes to delete\n"));
    assert_eq!(kept(&stage), second);
    assert_eq!(gc(&["--yes"]), "note: deleted a version of the agent that no run needs: <kept>\n");
    assert_eq!(kept(&stage), Vec::<PathBuf>::new());
}
