//! This crate's files in format version 1, as version 0.1.0 wrote them. They must stay readable forever.

use std::fs;

use format_fixtures::{Form, Layout, check, fixtures, unread_fields};
use pretty_assertions::assert_eq;

use crate::history::Operation;
use crate::repository::RefsKept;
use crate::snapshot::Snapshot;

const SNAPSHOTS: [&str; 2] =
    ["v1/state/checkpoints/*/0*.*.jsonl", "v1/state/checkpoints/*/base.jsonl"];

/// Reads a snapshot through a file, as the program does.
fn read(text: &str) -> Option<Snapshot> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot");
    fs::write(&path, text).unwrap();
    Snapshot::read(&path).ok()
}

#[test]
fn snapshots_are_read_in_full_and_written_again_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let again = directory.path().join("again.jsonl");
    for fixture in SNAPSHOTS.into_iter().flat_map(fixtures) {
        let snapshot = Snapshot::read(&fixture.path).unwrap();
        snapshot.write(&again).unwrap();
        assert_eq!(fs::read_to_string(&again).unwrap(), fixture.text(), "{}", fixture.name);
    }
}

#[test]
fn a_reader_reads_every_field_of_a_snapshot() {
    let snapshots = SNAPSHOTS.into_iter().flat_map(fixtures).map(|it| it.text());
    let tell = |text: &str| read(text).map(|snapshot| format!("{snapshot:?}"));
    let unread = unread_fields(Form::JsonLines, snapshots, tell);
    assert!(unread.is_empty(), "{unread:#?}");
}

#[test]
fn the_record_of_repositories_is_read_completely() {
    check::<RefsKept>(&["v1/state/checkpoints/*/*.refs.json"], Layout::Compact);
}

#[test]
fn the_list_of_operations_is_read_completely() {
    check::<Operation>(&["v1/state/checkpoints/*/operations.jsonl"], Layout::Lines);
    check::<Operation>(&["v1/state/checkpoints/*/restoring.json"], Layout::Compact);
}
