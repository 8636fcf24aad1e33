//! `undo`, `apply` and `discard`: what becomes of an agent's work.

use super::Shown;
use super::past::{self, TIDY};
use super::reading_runs::shows_how_a_run_is_refused;
use crate::repository::make_repository;
use crate::stage::Stage;

const WORK: &str = "shell echo changed > plain && echo new > new\nsay Done.";

/// A run that changed one file and added one.
fn changed() -> Stage {
    let stage = Stage::of_fixed_width();
    std::fs::write(stage.workspace().join("plain"), "plain\n").unwrap();
    assert!(stage.play(WORK, &["--name", "changer"]).status.success());
    stage
}

#[test]
fn undo_takes_back_what_a_run_changed() {
    let stage = changed();
    let shown = Shown::live(&stage);
    shown.command("undo/dry-run", &["undo", "changer", "--dry-run"]);
    shown.once("undo/nothing-to-redo", &["undo", "changer", "--redo"]);
    shown.once("undo/unknown-checkpoint", &["undo", "changer", "--to", "half way"]);
    shown.once("undo/first", &["undo", "changer"]);
    shown.once("undo/twice", &["undo", "changer"]);
    shown.once("undo/redo", &["undo", "changer", "--redo"]);
    shown.on_fresh_stages("undo/good", &["undo", "changer"], changed);
}

#[test]
fn undo_lists_conflicts() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    let conflict = || {
        let stage = changed();
        std::fs::write(stage.workspace().join("plain"), "changed by me\n").unwrap();
        stage
    };
    shown.on_fresh_stages("undo/conflict", &["undo", "changer"], conflict);
    shown.on_fresh_stages("undo/rest", &["undo", "changer", "--yes"], conflict);
}

#[test]
fn undo_refuses_what_was_not_saved() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    shown.once("undo/nothing-saved", &["undo", TIDY]);
    shows_how_a_run_is_refused(&shown, "undo");
}

/// A run that changed a file and added one in a worktree of its own.
fn in_worktree() -> Stage {
    let stage = Stage::of_fixed_width();
    make_repository(&stage.workspace());
    assert!(stage.play(WORK, &["--worktree", "--name", "changer"]).status.success());
    stage
}

#[test]
fn apply_brings_work_into_the_checkout() {
    let stage = in_worktree();
    let shown = Shown::live(&stage);
    shown.command("show/worktree", &["show", "changer"]);
    shown.command("diff/worktree", &["diff", "changer"]);
    shown.command("apply/dry-run", &["apply", "changer", "--dry-run"]);
    shown.once("apply/nothing-to-revert", &["apply", "changer", "--revert"]);
    shown.once("apply/first", &["apply", "changer"]);
    shown.once("apply/twice", &["apply", "changer"]);
    shown.once("apply/revert", &["apply", "changer", "--revert"]);
    shown.on_fresh_stages("apply/good", &["apply", "changer"], in_worktree);
}

#[test]
fn apply_lists_conflicts() {
    let own = Stage::of_fixed_width();
    let shown = Shown::live(&own);
    let conflict = || {
        let stage = in_worktree();
        std::fs::write(stage.workspace().join("plain"), "changed by me\n").unwrap();
        stage
    };
    shown.on_fresh_stages("apply/conflict", &["apply", "changer"], conflict);
}

#[test]
fn discard_removes_a_worktree() {
    let applied = || {
        let stage = in_worktree();
        assert!(stage.output(&["apply", "changer"]).status.success());
        stage
    };
    let stage = applied();
    let shown = Shown::live(&stage);
    shown.once("discard/first", &["discard", "changer"]);
    shown.once("discard/twice", &["discard", "changer"]);
    shown.once("apply/discarded", &["apply", "changer"]);
    shown.on_fresh_stages("discard/not-applied", &["discard", "changer"], in_worktree);
    shown.on_fresh_stages("discard/forced", &["discard", "changer", "--yes"], in_worktree);
    shown.on_fresh_stages("discard/applied", &["discard", "changer"], applied);
}

#[test]
fn apply_and_discard_refuse_runs_without_a_worktree() {
    let stage = past::stage();
    let shown = Shown::live(&stage);
    for command in ["apply", "discard"] {
        shown.once(&format!("{command}/no-worktree"), &[command, TIDY]);
        shows_how_a_run_is_refused(&shown, command);
    }
}
