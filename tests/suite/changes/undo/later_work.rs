//! Undo reverts the changes of one run. Later work by the user and by other runs stays.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{furnish, seen};
use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

const NUMBERS: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// Plays a script and returns the run id.
fn play(stage: &Stage, script: &str) -> String {
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    stage.run_ids().pop().unwrap()
}

fn write(stage: &Stage, path: &str, content: &str) {
    let path = stage.workspace().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn read(stage: &Stage, path: &str) -> String {
    fs::read_to_string(stage.workspace().join(path)).unwrap()
}

/// Returns the exit code and the output.
fn undo(stage: &Stage, args: &[&str]) -> (Option<i32>, String) {
    let output = stage.output(&[&["undo"], args].concat());
    let said = String::from_utf8(output.stdout.clone()).unwrap() + &stderr(&output);
    (output.status.code(), said)
}

fn undo_json(stage: &Stage, args: &[&str]) -> (Option<i32>, Value) {
    let output = stage.output(&[&["undo", "--json"], args].concat());
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn edits_and_runs_that_came_after_a_run_survive_its_undo() {
    let stage = Stage::new();
    furnish(&stage.workspace());
    let before = seen(&stage.workspace());
    let first = play(&stage, "shell echo z > zz.txt && chmod 755 secret && rm -r empty");
    write(&stage, "src/main.rs", "fn main() { mine() }\n");
    write(&stage, "mynotes.txt", "mine\n");
    play(&stage, "shell echo second > second.txt && echo second > src/old.rs");
    let (code, report) = undo_json(&stage, &[&first, "--dry-run"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["changes"], json!({"added": 0, "changed": 1, "removed": 1}));
    assert_eq!((&report["conflicts"], &report["done"]), (&json!([]), &json!(false)));
    let (code, said) = undo(&stage, &[&first]);
    assert_eq!(code, Some(0), "{said}");
    let mut expected = before;
    for (path, content) in [
        ("src/main.rs", "fn main() { mine() }\n"),
        ("mynotes.txt", "mine\n"),
        ("second.txt", "second\n"),
        ("src/old.rs", "second\n"),
    ] {
        expected.insert(path.into(), format!("file 644 {content}"));
    }
    assert_eq!(seen(&stage.workspace()), expected);
}

#[test]
fn lines_that_the_user_changed_in_a_file_of_the_run_stay() {
    let stage = Stage::new();
    write(&stage, "lines", NUMBERS);
    let run = play(&stage, "shell sed -i 's/^1$/one/' lines");
    write(&stage, "lines", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(&stage, "lines"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    // A redo does the same in the other direction.
    write(&stage, "lines", "1\n2\n3\n4\nfive\n6\n7\n8\nnine\n");
    write(&stage, "later", "mine\n");
    let (code, report) = undo_json(&stage, &[&run, "--redo"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!((&report["kind"], &report["merged"]), (&json!("redo"), &json!(["lines"])));
    assert_eq!(read(&stage, "lines"), "one\n2\n3\n4\nfive\n6\n7\n8\nnine\n");
    assert_eq!(read(&stage, "later"), "mine\n");
}

#[test]
fn a_conflict_stops_the_undo_and_with_yes_the_rest_is_undone() {
    let stage = Stage::new();
    write(&stage, "lines", NUMBERS);
    write(&stage, "plain", "plain\n");
    let run = play(&stage, "shell sed -i 's/^5$/five/' lines; echo x > made; echo run > plain");
    write(&stage, "lines", "1\n2\n3\n4\nfünf\n6\n7\n8\n9\n");
    write(&stage, "made", "mine\n");
    let present = seen(&stage.workspace());
    for flags in [&[][..], &["--dry-run"]] {
        let (code, said) = undo(&stage, &[&[run.as_str()], flags].concat());
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains("`made`: made by the run and changed after it"), "{said}");
        assert_eq!(seen(&stage.workspace()), present);
    }
    let (code, report) = undo_json(&stage, &[&run]);
    assert_eq!((code, &report["done"]), (Some(4), &json!(false)), "{report}");
    assert_eq!(report["conflicts"][0]["path"], "lines");
    assert_eq!(report["paths"], json!([{"path": "plain", "change": "changed"}]));
    assert_eq!(seen(&stage.workspace()), present);

    let (code, said) = undo(&stage, &[&run, "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    let mut expected = present.clone();
    expected.insert("plain".into(), "file 644 plain\n".to_owned());
    assert_eq!(seen(&stage.workspace()), expected);
    let (code, said) = undo(&stage, &[&run, "--redo"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(seen(&stage.workspace()), present);
}

#[test]
fn an_undo_to_a_checkpoint_keeps_later_work() {
    let stage = Stage::new();
    write(&stage, "lines", NUMBERS);
    // The agent continues when its checkpoint has been saved.
    let script = "shell sed -i 's/^1$/one/' lines\nmcp caretaker checkpoint {\"label\":\"half\"}\n\
        shell read line < hold && rm hold\nshell sed -i 's/^9$/nine/' lines && echo x > made";
    let hold = stage.workspace().join("hold");
    assert!(std::process::Command::new("mkfifo").arg(&hold).status().unwrap().success());
    let run = stage.detach(script, &[]);
    stage.wait_until(&run, |line| line["kind"] == "run.workspace_marked");
    fs::write(&hold, "go\n").unwrap();
    assert_eq!(stage.output(&["wait", &run, "--timeout", "2m"]).status.code(), Some(0));

    write(&stage, "lines", "one\n2\n3\n4\nfive\n6\n7\n8\nnine\n");
    write(&stage, "mine", "mine\n");
    let (code, said) = undo(&stage, &[&run, "--to", "half"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(&stage, "lines"), "one\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    assert!(!stage.workspace().join("made").exists());
    // The next undo goes from the checkpoint back to the start, so the checkpoint is its base.
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(&stage, "lines"), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    assert_eq!(read(&stage, "mine"), "mine\n");
}

#[test]
fn a_repository_that_a_run_made_stays_once_the_user_committed_to_it() {
    let stage = Stage::new();
    let run = play(
        &stage,
        "shell git init -q sub && echo x > sub/file && echo x > other && cd sub && git add file && git commit -qm one",
    );
    let sub = stage.workspace().join("sub");
    // `git status` does not count as a change, although it writes the index.
    git(&sub, &["status"]);
    let (code, said) = undo(&stage, &[&run, "--dry-run"]);
    assert_eq!(code, Some(0), "{said}");
    git(&sub, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("`sub/.git`: this repository changed after the run"), "{said}");
    let (code, said) = undo(&stage, &[&run, "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(git(&sub, &["log", "--format=%s"]), "mine\none\n");
    assert!(!stage.workspace().join("other").exists());
}

/// Starts a run and kills its shim before the shim can save the agent's work.
fn killed(stage: &Stage) -> String {
    let run = stage.detach("shell echo x > made && echo run > plain\nshell sleep 600", &[]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_completed");
    let pid = i32::try_from(stage.shim_pid(&run)).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    // The first thread of a killed process may be gone while another still holds the locks. `wait` waits for the locks.
    stage.output(&["wait", &run]);
    stage.assert_no_survivors("after its shim was killed");
    run
}

#[test]
fn undo_asks_if_the_end_of_a_run_was_not_saved() {
    let stage = Stage::new();
    write(&stage, "plain", "plain\n");
    let run = killed(&stage);
    write(&stage, "mine", "mine\n");
    // The shim made this directory, and the next command removes it.
    fs::remove_dir(stage.workspace().join(".cursor")).ok();
    let present = seen(&stage.workspace());
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(seen(&stage.workspace()), present);
    let (code, report) = undo_json(&stage, &[&run, "--dry-run"]);
    assert_eq!((code, &report["end"]), (Some(4), &json!("now")), "{report}");
    let diff = stage.output(&["diff", &run]);
    assert!(stderr(&diff).contains("was not saved when run"), "{}", stderr(&diff));

    // The nearest known state is the start of the next run: everything after that stays.
    let second = play(&stage, "shell echo second > second");
    write(&stage, "last", "mine\n");
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(4), "{said}");
    let diff = String::from_utf8(stage.output(&["diff", &run]).stdout).unwrap();
    assert!(diff.contains("b/made") && !diff.contains("second"), "{diff}");
    let (code, report) = undo_json(&stage, &[&run, "--yes"]);
    assert_eq!((code, &report["end"]), (Some(0), &json!("next_run")), "{report}");
    let left = seen(&stage.workspace());
    let left: Vec<&Path> = left.keys().map(AsRef::as_ref).collect();
    assert_eq!(left, ["last", "plain", "second"].map(Path::new));
    assert_eq!(read(&stage, "plain"), "plain\n");
    let (code, said) = undo(&stage, &[&run, "--redo"]);
    assert_eq!((code, read(&stage, "mine").as_str()), (Some(0), "mine\n"), "{said}");
    let (code, said) = undo(&stage, &[&second]);
    assert_eq!((code, stage.workspace().join("second").exists()), (Some(0), false), "{said}");
}

#[test]
fn the_diff_of_a_run_shows_neither_later_edits_nor_later_runs() {
    let stage = Stage::new();
    write(&stage, "lines", NUMBERS);
    let run = play(&stage, "shell sed -i 's/^1$/one/' lines; echo x > made");
    write(&stage, "lines", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    play(&stage, "shell rm made; echo second > second");
    let patch = String::from_utf8(stage.output(&["diff", &run]).stdout).unwrap();
    assert!(patch.contains("+one") && patch.contains("b/made"), "{patch}");
    assert!(!patch.contains("nine") && !patch.contains("second"), "{patch}");
    let json = stage.output(&["diff", &run, "--json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["changes"], json!({"added": 1, "changed": 1, "removed": 0}));
}

#[test]
fn the_next_undo_first_finishes_one_that_was_killed() {
    let stage = Stage::new();
    write(&stage, "plain", "plain\n");
    let run = play(&stage, "shell echo x > made && echo run > plain");
    let other = play(&stage, "shell echo other > other");
    write(&stage, "mine", "mine\n");
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(0), "{said}");
    let undone = seen(&stage.workspace());
    // As if the undo had died at `plain`, before it removed `made`.
    let checkpoints = fs::read_dir(stage.root().join("state/checkpoints")).unwrap();
    let history = checkpoints.map(|entry| entry.unwrap().path()).next().unwrap();
    fs::rename(history.join("operations.jsonl"), history.join("restoring.json")).unwrap();
    fs::remove_file(stage.workspace().join("plain")).unwrap();
    write(&stage, "made", "x\n");
    write(&stage, ".caretaker-restoring-1", "pla");

    let (code, said) = undo(&stage, &[&other]);
    assert_eq!(code, Some(4), "{said}");
    let (code, said) = undo(&stage, &[&run]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(seen(&stage.workspace()), undone);
    let (code, said) = undo(&stage, &[&run, "--redo"]);
    assert_eq!((code, read(&stage, "plain").as_str()), (Some(0), "run\n"), "{said}");
    let (code, said) = undo(&stage, &[&other]);
    assert_eq!((code, stage.workspace().join("other").exists()), (Some(0), false), "{said}");
}

#[test]
fn a_second_undo_without_effect_does_not_block_the_redo_of_the_first() {
    let stage = Stage::new();
    git(&stage.workspace(), &["init", "--quiet"]);
    write(&stage, ".gitignore", "*.log\n");
    // The directory stays because of the ignored file, so every undo lists it as a change.
    let run = play(&stage, "shell mkdir out && echo 1 > out/a.txt && echo 2 > out/b.log");
    for said in ["undone: 1 file", "nothing to undo"] {
        let (code, output) = undo(&stage, &[&run]);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains(said), "{output}");
    }
    assert!(!stage.workspace().join("out/a.txt").exists());
    let (code, output) = undo(&stage, &[&run, "--redo"]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(read(&stage, "out/a.txt"), "1\n");
}
