//! The files of version 1 that hold types of this crate, as a binary of version 0.1.0 wrote them. They stay readable for ever.

use format_fixtures::{Layout, check, fixtures};

use crate::{InboxEntry, MintedSession, RunSpec, SessionRecord};

#[test]
fn specs_and_what_sessions_keep_of_them_are_read_whole() {
    let patterns = ["v1/state/runs/*/spec.json", "v1/state/sessions/*/terms.json"];
    check::<Option<RunSpec>>(&patterns, Layout::Pretty);
    // Every field there is, as the parser lists them to somebody who uses another one.
    let error = serde_json::from_str::<RunSpec>(r#"{"?":1}"#).unwrap_err().to_string();
    let (_, fields) = error.split_once("expected ").unwrap();
    let texts: String = patterns.into_iter().flat_map(fixtures).map(|it| it.text()).collect();
    for field in fields.split('`').skip(1).step_by(2) {
        assert!(texts.contains(&format!("\n  \"{field}\": ")), "no spec has `{field}`");
    }
}

#[test]
fn records_of_sessions_are_read_whole() {
    check::<SessionRecord>(&["v1/state/sessions/*/session.json"], Layout::Pretty);
}

#[test]
fn minted_sessions_are_read_whole() {
    check::<MintedSession>(&["v1/state/sessions/*/minted.json"], Layout::Pretty);
}

#[test]
fn inboxes_are_read_whole() {
    check::<InboxEntry>(&["v1/state/inbox/*.jsonl"], Layout::Lines);
}
