//! `ps`, `show`, `tail`, `why`, `wait` on runs of the past.

use super::Shown;
use super::past::{self, CHANGELOG, COUNTING, CUT_OFF, PUBLISH, REPORTER, TIDY, WATCHER};
use crate::stage::Stage;

/// Every command that is given a run is refused in the same ways.
pub(super) fn shows_how_a_run_is_refused(shown: &Shown<'_>, command: &str) {
    shown.once(&format!("{command}/unknown-run"), &[command, "no-such-run"]);
    shown.once(&format!("{command}/ambiguous-run"), &[command, "0174"]);
    shown.once(&format!("{command}/no-run"), &[command]);
    shown.once(&format!("{command}/unknown-flag"), &[command, "--colour"]);
}

#[test]
fn ps_lists_runs() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("ps/past", &["ps"]);
    shown.command("ps/all", &["ps", "--all"]);
    shown.human("ps/quiet", &["ps", "--all", "--quiet"]);
    shown.once("ps/json-and-quiet", &["ps", "--json", "--quiet"]);
    shown.once("ps/unknown-flag", &["ps", "--everything"]);
}

#[test]
fn ps_lists_nothing_where_no_run_was() {
    let stage = Stage::of_fixed_width();
    let shown = Shown::of(&stage);
    shown.command("ps/empty", &["ps"]);
    shown.command("ps/all-empty", &["ps", "--all"]);
}

#[test]
fn show_shows_every_kind_of_end() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("show/succeeded", &["show", TIDY]);
    shown.command("show/failed", &["show", PUBLISH]);
    shown.command("show/reported", &["show", REPORTER]);
    shown.command("show/resumed", &["show", COUNTING]);
    shown.command("show/cancelled", &["show", WATCHER]);
    shown.command("show/suspended", &["show", CHANGELOG]);
    shown.command("show/lost", &["show", CUT_OFF]);
    shows_how_a_run_is_refused(&shown, "show");
}

#[test]
fn tail_prints_every_kind_of_end() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("tail/succeeded", &["tail", TIDY]);
    shown.command("tail/failed", &["tail", PUBLISH]);
    shown.command("tail/reported", &["tail", REPORTER]);
    shown.command("tail/resumed", &["tail", COUNTING]);
    shown.command("tail/cancelled", &["tail", WATCHER]);
    shown.command("tail/suspended", &["tail", CHANGELOG]);
    shown.command("tail/lost", &["tail", CUT_OFF]);
    shows_how_a_run_is_refused(&shown, "tail");
}

#[test]
fn why_says_it_in_one_sentence() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    for (name, run) in [
        ("succeeded", TIDY),
        ("failed", PUBLISH),
        ("cancelled", WATCHER),
        ("suspended", CHANGELOG),
        ("lost", CUT_OFF),
    ] {
        shown.command(&format!("why/{name}"), &["why", run]);
    }
    shows_how_a_run_is_refused(&shown, "why");
}

#[test]
fn wait_returns_at_once_for_runs_that_are_over() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("wait/succeeded", &["wait", TIDY]);
    shown.command("wait/failed", &["wait", PUBLISH]);
    shown.command("wait/cancelled", &["wait", WATCHER]);
    shown.command("wait/several", &["wait", TIDY, PUBLISH, CHANGELOG]);
    shown.once("wait/bad-timeout", &["wait", TIDY, "--timeout", "soon"]);
    shows_how_a_run_is_refused(&shown, "wait");
}
