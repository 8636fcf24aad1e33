//! Version 1 files with types of this crate, as Caretaker 0.1.0 wrote them. Every later version must read them.

use format_fixtures::{Layout, check, fixtures};

use crate::{InboxEntry, MintedSession, RunSpec, SessionRecord};

#[test]
fn run_specs_and_the_specs_that_sessions_keep_are_read_in_full() {
    let patterns = ["*/state/runs/*/spec.json", "*/state/sessions/*/terms.json"];
    check::<Option<RunSpec>>(&patterns, Layout::Pretty);
    // The parser's error about an unknown field lists every known field.
    let error = serde_json::from_str::<RunSpec>(r#"{"?":1}"#).unwrap_err().to_string();
    let (_, fields) = error.split_once("expected ").unwrap();
    let texts: String = patterns.into_iter().flat_map(fixtures).map(|it| it.text()).collect();
    for field in fields.split('`').skip(1).step_by(2) {
        assert!(texts.contains(&format!("\n  \"{field}\": ")), "no spec has `{field}`");
    }
}

#[test]
fn session_records_are_read_in_full() {
    check::<SessionRecord>(&["*/state/sessions/*/session.json"], Layout::Pretty);
}

#[test]
fn minted_sessions_are_read_in_full() {
    check::<MintedSession>(&["*/state/sessions/*/minted.json"], Layout::Pretty);
}

#[test]
fn inboxes_are_read_in_full() {
    check::<InboxEntry>(&["*/state/inbox/*.jsonl"], Layout::Lines);
}
