//! `undo`, `apply` and `discard` with real runs, because git has to keep their contents.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::past::{self, TIDY};
use super::reading_runs::shows_how_a_run_is_refused;
use super::{Form, Shown};
use crate::stage::repository::git;
use crate::stage::{Stage, stderr};

const NUMBERS: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// Makes a stage whose workspace is a repository with one commit.
fn stage() -> Stage {
    let stage = Stage::of_fixed_width();
    let workspace = stage.workspace();
    git(&workspace, &["init", "-q", "-b", "main"]);
    for (name, content) in
        [("lines", NUMBERS), ("plain", "plain\n"), ("gone", "x\n"), (".gitignore", "build/\n")]
    {
        write(&stage, name, content);
    }
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "-qm", "one"]);
    stage
}

fn write(stage: &Stage, path: &str, content: &str) {
    let path = stage.workspace().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn shown(stage: &Stage) -> Shown<'_> {
    Shown::live(stage)
        // Commits get the time of the test.
        .also(r"\b(was|is|at|to) [0-9a-f]{10,12}\b", "$1 <commit>")
        .also(r"\bjournal: #+\.# KiB", "journal: <n> KiB")
}

#[track_caller]
fn succeed(stage: &Stage, args: &[&str]) {
    let output = stage.output(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
}

/// Shows a command in every form. `back` reverts it each time, so that one run is enough.
fn in_every_form(shown: &Shown<'_>, name: &str, args: &[&str], back: &[&str]) {
    for (form, of_form) in [
        ("100", Form::Terminal { columns: 100 }),
        ("60", Form::Terminal { columns: 60 }),
        ("json", Form::Json),
    ] {
        let flags: &[&str] = if matches!(of_form, Form::Json) { &["--json"] } else { &[] };
        shown.show(&format!("{name}.{form}"), &[args, flags].concat(), of_form);
        succeed(shown.stage, back);
    }
}

/// Plays a run that changes, deletes and creates files, makes a checkpoint halfway, and commits.
fn changed() -> Stage {
    let stage = stage();
    // The agent continues once its checkpoint is saved.
    let hold = stage.workspace().join("build/hold");
    fs::create_dir(stage.workspace().join("build")).unwrap();
    assert!(Command::new("mkfifo").arg(&hold).status().unwrap().success());
    let script = "shell sed -i 's/^5$/five/' lines && rm gone\n\
        mcp caretaker checkpoint {\"label\":\"half\"}\nshell cat build/hold\n\
        shell echo run > plain && chmod 755 plain && mkdir made && echo x > made/file\n\
        shell git add made plain && git commit -qm two";
    let run = stage.detach(script, &["--name", "changer"]);
    stage.wait_until(&run, |line| line["kind"] == "run.workspace_marked");
    fs::write(&hold, "go\n").unwrap();
    succeed(&stage, &["wait", &run, "--timeout", "2m"]);
    stage
}

#[test]
fn undo_takes_back_what_a_run_changed() {
    let stage = changed();
    let shown = shown(&stage);
    shown.command("undo/dry-run", &["undo", "changer", "--dry-run"]);
    shown.command("undo/checkpoint", &["undo", "changer", "--to", "half", "--dry-run"]);
    shown.once("undo/unknown-checkpoint", &["undo", "changer", "--to", "parsed"]);
    shown.once("undo/not-undone", &["undo", "changer", "--redo"]);
    in_every_form(&shown, "undo/done", &["undo", "changer"], &["undo", "changer", "--redo"]);
    succeed(&stage, &["undo", "changer"]);
    shown.command("undo/nothing-left", &["undo", "changer"]);
    in_every_form(&shown, "undo/redone", &["undo", "changer", "--redo"], &["undo", "changer"]);
    succeed(&stage, &["undo", "changer", "--redo"]);
    shown.once("undo/undone-again", &["undo", "changer", "--redo"]);
}

#[test]
fn undo_keeps_what_came_after_the_run() {
    let stage = changed();
    let shown = shown(&stage);
    write(&stage, "lines", &NUMBERS.replace('5', "five").replace('9', "nine"));
    write(&stage, "made/build/mine", "ignored by git");
    shown.command("undo/merged", &["undo", "changer", "--dry-run"]);
    write(&stage, "plain", "mine\n");
    git(&stage.workspace(), &["commit", "-q", "--allow-empty", "-m", "mine"]);
    shown.command("undo/conflict", &["undo", "changer"]);
    shown.once("undo/conflict-dry-run", &["undo", "changer", "--dry-run"]);
    shown.once("undo/conflict-yes", &["undo", "changer", "--yes"]);
    shown.once("undo/conflict-left", &["undo", "changer", "--yes"]);
}

#[test]
fn undo_asks_first_if_the_end_of_a_run_was_not_saved_and_finishes_an_interrupted_undo() {
    let stage = stage();
    let shown = shown(&stage);
    let script = "shell echo x > made && echo run > plain\nshell sleep 600";
    let run = stage.detach(script, &["--name", "first"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_completed");
    let pid = i32::try_from(stage.shim_pid(&run)).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    // The first thread of a killed process may be gone while another still holds the locks. `wait` waits for the locks.
    stage.output(&["wait", &run]);
    stage.assert_no_survivors("after its shim was killed");
    shown.command("undo/end-not-saved", &["undo", "first"]);
    assert!(stage.play("shell echo second > second", &["--name", "second"]).status.success());
    shown.once("undo/end-is-the-next-run", &["undo", "first"]);
    shown.once("undo/end-not-saved-yes", &["undo", "first", "--yes"]);
    // As if the undo had died at `plain`, before it removed `made`.
    let checkpoints = fs::read_dir(stage.root().join("state/checkpoints")).unwrap();
    let history = checkpoints.map(|entry| entry.unwrap().path()).next().unwrap();
    fs::rename(history.join("operations.jsonl"), history.join("restoring.json")).unwrap();
    fs::remove_file(stage.workspace().join("plain")).unwrap();
    write(&stage, "made", "x\n");
    shown.once("undo/interrupted", &["undo", "second"]);
    shown.once("undo/finished", &["undo", "first"]);
}

#[test]
fn a_run_that_is_under_way_is_neither_undone_nor_applied_nor_discarded() {
    let stage = stage();
    let run = stage.detach("shell sleep 600", &["--worktree", "--name", "busy"]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let shown = shown(&stage);
    for command in ["undo", "apply", "discard"] {
        shown.once(&format!("{command}/in-use"), &[command, "busy"]);
    }
    stage.output(&["kill", "--now", &run]);
}

#[test]
fn undo_apply_and_discard_refuse_impossible_requests() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    for command in ["undo", "apply", "discard"] {
        shows_how_a_run_is_refused(&shown, command);
    }
    shown.once("undo/not-saved", &["undo", TIDY]);
    shown.once("undo/no-checkpoint", &["undo", TIDY, "--to", "half"]);
    shown.once("undo/to-and-redo", &["undo", TIDY, "--to", "half", "--redo"]);
    shown.once("apply/no-worktree", &["apply", TIDY]);
    shown.once("discard/no-worktree", &["discard", TIDY]);
    for file in ["spec.json", "events.jsonl"] {
        let file = stage.runs().join(TIDY).join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("/home/project\"", "/home/renamed\"")).unwrap();
    }
    shown.once("undo/workspace-gone", &["undo", TIDY]);
}

#[test]
fn apply_brings_a_worktree_into_the_checkout_and_discard_removes_it() {
    let stage = stage();
    let script = "shell echo run > plain && rm gone && mkdir made && echo made > made/file && sed -i s/^1$/one/ lines\n\
        shell git add made plain && git commit -qm two";
    assert!(stage.play(script, &["--worktree", "--name", "fix"]).status.success());
    let shown = shown(&stage);
    shown.command("show/worktree", &["show", "fix"]);
    shown.command("diff/worktree", &["diff", "fix"]);
    shown.command("discard/unapplied", &["discard", "fix"]);
    shown.command("apply/dry-run", &["apply", "fix", "--dry-run"]);
    shown.once("apply/nothing-to-revert", &["apply", "fix", "--revert"]);
    write(&stage, "plain", "mine\n");
    shown.command("apply/conflict", &["apply", "fix"]);
    write(&stage, "plain", "plain\n");
    write(&stage, "lines", &NUMBERS.replace('9', "nine"));
    in_every_form(&shown, "apply/done", &["apply", "fix"], &["apply", "fix", "--revert"]);
    succeed(&stage, &["apply", "fix"]);
    shown.command("apply/nothing-to-do", &["apply", "fix"]);
    shown.once("apply/revert-dry-run", &["apply", "fix", "--revert", "--dry-run"]);
    in_every_form(&shown, "apply/reverted", &["apply", "fix", "--revert"], &["apply", "fix"]);
    write(&stage, "lines", &NUMBERS.replace('1', "one").replace('9', "neun"));
    shown.once("apply/revert-merged", &["apply", "fix", "--revert"]);
    succeed(&stage, &["apply", "fix"]);
    write(&stage, "made/file", "mine\n");
    shown.command("apply/revert-conflict", &["apply", "fix", "--revert"]);
    shown.once("discard/done", &["discard", "fix"]);
    shown.once("apply/discarded", &["apply", "fix"]);
    shown.once("discard/discarded", &["discard", "fix"]);
}

#[test]
fn discard_drops_what_was_not_applied_when_the_user_says_yes() {
    let stage = stage();
    let script = "shell echo run > plain";
    assert!(stage.play(script, &["--worktree", "--name", "fix"]).status.success());
    let shown = shown(&stage);
    shown.json("discard/dropped", &["discard", "fix", "--yes", "--keep-branch"]);
    shown.text("discard/kept-branch", &git(&stage.workspace(), &["branch", "--list"]));
}
