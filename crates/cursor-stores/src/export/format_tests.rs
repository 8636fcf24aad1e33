//! Version 1 exports must stay readable.

use format_fixtures::{Form, fixtures, unread_fields};
use pretty_assertions::assert_eq;

use super::file_form::split;
use super::{write_json, write_jsonl};
use crate::model::Conversation;

/// Returns the conversation in a file, if all of it can be read.
fn read(bytes: &[u8]) -> Option<Conversation> {
    let mut filed = split(bytes).ok()?;
    assert!(filed.len() < 2, "one conversation");
    filed.pop()?.form.read().ok()
}

#[test]
fn exports_are_read_in_full_and_written_again_byte_for_byte() {
    for fixture in fixtures("v1/exports/*.json") {
        let mut again = Vec::new();
        write_json(&read(&fixture.bytes()).unwrap(), &mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), fixture.text(), "{}", fixture.name);
    }
    for fixture in fixtures("v1/exports/*.jsonl") {
        let mut again = Vec::new();
        write_jsonl(read(&fixture.bytes()).unwrap(), &mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), fixture.text(), "{}", fixture.name);
    }
}

#[test]
fn a_reader_reads_every_field_of_an_export() {
    let tell = |text: &str| read(text.as_bytes()).map(|it| format!("{it:?}"));
    for (pattern, form) in
        [("v1/exports/*.json", Form::Json), ("v1/exports/*.jsonl", Form::JsonLines)]
    {
        let texts = fixtures(pattern).into_iter().map(|it| it.text());
        let unread = unread_fields(form, texts, tell);
        assert!(unread.is_empty(), "{unread:#?}");
    }
}
