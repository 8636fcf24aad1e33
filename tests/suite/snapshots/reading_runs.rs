//! `ps`, `show`, `tail`, `why`, `wait` with past runs.

use super::Shown;
use super::past::{
    self, CHANGELOG, COUNTING, CUT_OFF, EVERYTHING, JUST_CUT_OFF, PUBLISH, REPORTER, RUNNING, TIDY,
    WATCHER,
};
use crate::stage::Stage;

/// Every command that takes a run refuses a bad one in the same ways.
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
fn ps_lists_nothing_without_runs() {
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
fn why_gives_the_reason_in_one_sentence() {
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

#[test]
fn a_run_that_is_under_way_is_shown_as_such() {
    let (stage, _lock) = past::running();
    let shown = Shown::of(&stage);
    shown.command("ps/running", &["ps"]);
    shown.command("show/running", &["show", RUNNING]);
    shown.command("tail/running", &["tail", RUNNING]);
    shown.command("why/running", &["why", RUNNING]);
    shown.command("wait/timeout", &["wait", RUNNING, "--timeout", "10ms"]);
    Shown::live(&stage).once("gc/running", &["gc", "--older-than", "30d"]);
}

#[test]
fn every_kind_of_event_has_its_line() {
    let stage = past::everything();
    let shown = Shown::of(&stage);
    shown.command("tail/every-event", &["tail", EVERYTHING]);
    shown.command("show/every-event", &["show", EVERYTHING]);
    shown.command("ps/every-event", &["ps", "--all"]);
    shown.command("sandbox-net-log/entries", &["sandbox", "net-log", EVERYTHING]);
}

#[test]
fn a_run_that_was_cut_off_today_is_news() {
    let stage = past::just_cut_off();
    let shown = Shown::of(&stage);
    shown.command("ps/just-cut-off", &["ps"]);
    shown.once("show/just-cut-off", &["show", JUST_CUT_OFF]);
}

#[test]
fn tail_prints_as_much_as_requested() {
    let stage = past::stage();
    let shown = Shown::of(&stage);
    shown.command("tail/last", &["tail", TIDY, "--last", "3"]);
    shown.command("tail/since", &["tail", TIDY, "--since", "24"]);
    shown.human("tail/raw", &["tail", CUT_OFF, "--raw"]);
    shown.human("tail/follow-over", &["tail", PUBLISH, "--follow"]);
    shown.human("tail/follow-lost", &["tail", CUT_OFF, "--follow"]);
    shown.once("tail/bad-since", &["tail", TIDY, "--since", "noon"]);
    shown.once("tail/since-and-last", &["tail", TIDY, "--since", "1", "-n", "2"]);
}
