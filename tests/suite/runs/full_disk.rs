//! Runs whose records go to a disk that is too small. Whichever write fails first, the run reports its end honestly.
//!
//! The disk is a file system in memory that only the run sees.

use std::path::Path;
use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::stage::namespace::Namespace;
use crate::stage::{Stage, assert_exit, stderr};

/// Mounts the disk, runs the command, and saves the disk's content before its namespace goes away.
const ON_A_DISK: &str = "\
disk=$1; kept=$2; shift 2
mount -t tmpfs -o \"mode=0700,$disk\" none \"$CARETAKER_HOME\" || exit 99
\"$@\"; code=$?
cp -R \"$CARETAKER_HOME/.\" \"$kept\"
exit $code";

/// The agent writes a file and says a word.
const SCRIPT: &str = "write hello.txt <<END\nHello.\nEND\nsay done";

/// Plays a script with the state directory on a disk with these mount options. Afterwards, the stage has the disk's
/// content.
fn play_on(stage: &Stage, namespace: Namespace, disk: &str, script: &str) -> Output {
    let (mount_point, kept) = (stage.root().join("disk"), stage.root().join("state"));
    std::fs::remove_dir_all(&kept).ok();
    std::fs::create_dir_all(&mount_point).unwrap();
    std::fs::create_dir_all(&kept).unwrap();
    let prompt = stage.root().join("prompt");
    std::fs::write(&prompt, format!("```agent\n{script}\n```\n")).unwrap();
    let mut run =
        stage.caretaker(&["run", "--agent", "simulated", "--file", prompt.to_str().unwrap()]);
    run.env("CARETAKER_HOME", &mount_point);
    namespace.trust(stage, &mut run);
    let wrapper = ["sh", "-c", ON_A_DISK, "sh", disk, kept.to_str().unwrap()];
    let output = namespace.command(&wrapper, &run).output().unwrap();
    assert_ne!(output.status.code(), Some(99), "{}", stderr(&output));
    output
}

fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns true if the run succeeded. Checks that a success is recorded completely, that a failure says so, that a
/// refusal leaves nothing behind, and that no run leaves a process, or anything but the agent's own work in the
/// workspace.
fn ended_honestly(stage: &Stage, output: &Output, what: &str) -> bool {
    let said = stderr(output);
    let in_workspace = names_in(&stage.workspace());
    stage.assert_no_survivors(what);
    let has_succeeded = output.status.success();
    match stage.run_ids().as_slice() {
        [] => {
            assert_eq!(output.status.code(), Some(125), "{what}: {said}");
            assert!(said.contains("error: ") && said.contains("No space left"), "{what}: {said}");
            assert_eq!(names_in(&stage.root().join("state/sessions")), [""; 0], "{what}");
            assert_eq!(in_workspace, [""; 0], "{what}");
        }
        [run] => {
            let outcome = &stage.ended()["outcome"];
            assert_eq!(outcome == "succeeded", has_succeeded, "{what}: {outcome} {said}");
            let journal = stage.journal(run);
            let has_result = journal.iter().any(|entry| entry.line["agent"]["type"] == "result");
            assert!(
                has_result || !has_succeeded,
                "{what}: the run succeeded, but the journal has no result"
            );
            assert!(
                in_workspace.iter().all(|name| name == "hello.txt"),
                "{what}: {in_workspace:?}"
            );
        }
        runs => panic!("{what}: {runs:?}"),
    }
    std::fs::remove_file(stage.workspace().join("hello.txt")).ok();
    has_succeeded
}

#[test]
fn a_disk_that_fills_up_during_a_run_ends_it_and_the_journal_says_so() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    stage.configure("min_free = \"1MiB\"\n");
    let output = play_on(&stage, namespace, "size=24m", "misbehave huge-output 60000000\nsay done");
    assert_exit(&output, 125);
    assert!(!ended_honestly(&stage, &output, "huge output"));
    let ended = stage.ended();
    assert_eq!(ended["outcome"], json!("journal_failed"), "{ended}");
    let run = stage.run_ids().pop().unwrap();
    let journal = stage.journal(&run);
    let full = journal.iter().filter(|entry| entry.line["run"]["kind"] == "disk_full");
    assert_eq!(full.count(), 1);
    let numbers: Vec<u64> = journal.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_run_does_not_begin_on_a_disk_that_is_nearly_full() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    stage.configure("min_free = \"1MiB\"\n");
    let output = play_on(&stage, namespace, "size=512k", SCRIPT);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("512.0 KiB free"), "{}", stderr(&output));
    assert_eq!(names_in(&stage.root().join("state")), [""; 0]);
    assert_eq!(names_in(&stage.workspace()), [""; 0]);
}

#[test]
fn a_run_ends_honestly_whichever_write_finds_no_space_first() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    // The sizes range from no space at all to enough for the journal's reserve, each file before the start, and the
    // run.
    let pages = (1..=6).chain(2048..=2064).chain((2066..2140).step_by(12));
    let script = format!("misbehave huge-output 100000\n{SCRIPT}");
    let mut successes = Vec::new();
    for n_pages in pages {
        let output = play_on(&stage, namespace, &format!("size={}k", n_pages * 4), &script);
        successes.push(ended_honestly(&stage, &output, &format!("{n_pages} pages")));
    }
    assert_eq!((successes.first(), successes.last()), (Some(&false), Some(&true)));
}

#[test]
fn a_run_ends_honestly_whichever_file_cannot_be_created_first() {
    let Some(namespace) = Namespace::with_mounts() else { return };
    let stage = Stage::new();
    let mut successes = Vec::new();
    // Each limit stops a different file before the start. The larger limits leave room for the saved workspace too.
    for n_files in (2..=30).chain((34..=90).step_by(8)) {
        let output = play_on(&stage, namespace, &format!("size=64m,nr_inodes={n_files}"), SCRIPT);
        successes.push(ended_honestly(&stage, &output, &format!("{n_files} files")));
    }
    assert_eq!((successes.first(), successes.last()), (Some(&false), Some(&true)));
}
