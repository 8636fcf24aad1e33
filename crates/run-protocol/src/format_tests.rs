//! The files of version 1 that hold types of this crate, as a binary of version 0.1.0 wrote them. They stay readable for ever.

use format_fixtures::{Layout, check, fixtures};

use crate::{InboxEntry, MintedSession, RunSpec, SessionRecord};

#[test]
fn specs_and_what_sessions_keep_of_them_are_read_whole() {
    let patterns = ["*/state/runs/*/spec.json", "*/state/sessions/*/terms.json"];
    check::<Option<RunSpec>>(&patterns, Layout::Pretty);
    // Every field, as the parser lists them in the error about an unknown field.
    let error = serde_json::from_str::<RunSpec>(r#"{"?":1}"#).unwrap_err().to_string();
    let (_, fields) = error.split_once("expected ").unwrap();
    let texts: String = patterns.into_iter().flat_map(fixtures).map(|it| it.text()).collect();
    for field in fields.split('`').skip(1).step_by(2) {
        assert!(texts.contains(&format!("\n  \"{field}\": ")), "no spec has `{field}`");
    }
}

#[test]
fn records_of_sessions_are_read_whole() {
    check::<SessionRecord>(&["*/state/sessions/*/session.json"], Layout::Pretty);
}

#[test]
fn minted_sessions_are_read_whole() {
    check::<MintedSession>(&["*/state/sessions/*/minted.json"], Layout::Pretty);
}

#[test]
fn inboxes_are_read_whole() {
    check::<InboxEntry>(&["*/state/inbox/*.jsonl"], Layout::Lines);
}
