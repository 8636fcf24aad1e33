//! This crate's version 1 files, as Caretaker 0.1.0 wrote them. Every later version must read them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use format_fixtures::{Fixture, Form, Layout, check_these, fixtures, unread_fields};
use pretty_assertions::assert_eq;
use run_protocol::{
    Bound, FailureClass, FindingKind, HandOver, LimitBackend, LimitKind, LoginDrop, McpCallOutcome,
    McpRefusal, NetRefusal, NetVia, NetworkMode, NoResult, QuestionAbout, ReportedStatus,
    Resumable, RunEvent, RunOutcome, SignalName, StopReason,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::index::database::tests::connection;
use crate::index::database::{IndexDatabase, VERSION};
use crate::journal::line_encoding::{push_agent_line, push_event, push_header};
use crate::journal::line_parsing::{Line, parse_line};
use crate::{JournalEntry, KernelLock, LockHolder, RunFilter, Which};

/// Journals of whole runs.
const RUNS: &str = "*/state/runs/*/events.jsonl";
/// One event of each kind with all its fields, and one event for each word that a field may have.
const KINDS: [&str; 2] = ["*/journal/every-kind.jsonl", "*/journal/every-word.jsonl"];

fn journals() -> Vec<Fixture> {
    [RUNS].into_iter().chain(KINDS).flat_map(fixtures).collect()
}

/// Passes on the entry of a line, if the line is readable.
fn on_line(line: &str, mut on_entry: impl FnMut(JournalEntry<'_>)) {
    match parse_line(line.as_bytes()) {
        Line::Header(header) => on_entry(JournalEntry::Header(header)),
        Line::Event(event) => drop(event.hand_on(&mut on_entry)),
        Line::Unreadable => {}
    }
}

/// Everything that a reader gets from a journal, one entry per line.
fn told(text: &str) -> String {
    let mut told = String::new();
    for line in text.lines() {
        on_line(line, |entry| told.push_str(&format!("{entry:?}\n")));
    }
    told
}

/// Reads the entries and writes them again.
fn written_again(text: &str) -> String {
    let mut buffer = Vec::new();
    for line in text.lines() {
        on_line(line, |entry| match entry {
            JournalEntry::Header(header) => push_header(&mut buffer, &header),
            JournalEntry::Agent { number, at, line, ending, redaction } => {
                push_agent_line(&mut buffer, number, at, line, ending, redaction);
            }
            JournalEntry::Run { number, at, event, redaction, .. } => {
                push_event(&mut buffer, number, at, &event, redaction);
            }
            JournalEntry::UnknownRun { .. } | JournalEntry::Unreadable { .. } => {}
        });
    }
    String::from_utf8(buffer).unwrap()
}

#[test]
fn journals_of_version_1_are_read_in_full_and_written_again_byte_for_byte() {
    for journal in journals() {
        let text = journal.text();
        assert_eq!(written_again(&text), text, "{}", journal.name);
    }
}

#[test]
fn a_reader_reads_every_field_of_every_event() {
    let lines = journals().into_iter().flat_map(|journal| journal.lines());
    let unread = unread_fields(Form::Json, lines, |line| Some(told(line)));
    assert!(unread.is_empty(), "{unread:#?}");
}

/// The words that a type knows, as serde lists them in the error about an unknown word.
fn words<T: DeserializeOwned + Debug>(nonsense: &str) -> BTreeSet<String> {
    let error = serde_json::from_str::<T>(nonsense).unwrap_err().to_string();
    let (_, known) = error.split_once("expected ").unwrap();
    known.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn the_fixture_has_every_kind_of_event() {
    let text: String = fixtures(KINDS[0]).iter().map(Fixture::text).collect();
    let kinds = text.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["run"]["kind"].as_str().map(ToOwned::to_owned)
    });
    let missing = &words::<RunEvent>(r#"{"kind":"?"}"#) - &kinds.collect();
    assert!(missing.is_empty(), "{} has no event of these kinds: {missing:?}", KINDS[0]);
    for payload in ["agent", "agent_text", "agent_b64", "agent_cut", "run"] {
        assert!(text.contains(&format!(",\"{payload}\":")), "no line has `{payload}`");
    }
}

#[test]
fn the_fixture_has_every_word_that_a_field_may_hold() {
    let text: String = KINDS.into_iter().flat_map(fixtures).map(|it| it.text()).collect();
    let plain = [
        ("stop_requested", "reason", words::<StopReason>("\"?\"")),
        ("signalled", "signal", words::<SignalName>("\"?\"")),
        ("mcp_call", "outcome", words::<McpCallOutcome>("\"?\"")),
        ("mcp_refused", "reason", words::<McpRefusal>("\"?\"")),
        ("reported", "status", words::<ReportedStatus>("\"?\"")),
        ("needs_human", "about", words::<QuestionAbout>("\"?\"")),
        ("messages_delivered", "by", words::<HandOver>("\"?\"")),
        ("net.denied", "via", words::<NetVia>("\"?\"")),
        ("net.denied", "reason", words::<NetRefusal>("\"?\"")),
        ("login_dropped", "reason", words::<LoginDrop>("\"?\"")),
        ("sandbox_ready", "network", words::<NetworkMode>("\"?\"")),
        ("sandbox_ready", "backend", words::<LimitBackend>("\"?\"")),
        ("widened", "bound", words::<Bound>("\"?\"")),
        ("audit", "what", words::<FindingKind>("\"?\"")),
        ("ended", "class", words::<FailureClass>("\"?\"")),
        ("ended", "no_result", words::<NoResult>("\"?\"")),
        ("ended", "outcome", words::<RunOutcome>(r#"{"outcome":"?"}"#)),
        ("limit_reached", "limit", words::<LimitKind>(r#"{"limit":"?"}"#)),
        ("ended", "limit", words::<LimitKind>(r#"{"limit":"?"}"#)),
        ("checkpoint", "resumable", words::<Resumable>(r#"{"resumable":"?"}"#)),
    ];
    for (kind, field, words) in plain {
        let of_kind: Vec<&str> =
            text.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).collect();
        let is_there = |word: &String| {
            let said = format!("\"{field}\":\"{word}\"");
            of_kind.iter().any(|line| line.contains(&said))
        };
        let missing: Vec<String> = words.into_iter().filter(|word| !is_there(word)).collect();
        assert!(missing.is_empty(), "no `{kind}` has these as its `{field}`: {missing:?}");
    }
}

#[test]
fn notes_in_run_locks_are_read_in_full() {
    let locks = fixtures("v1/state/runs/*/run.lock");
    // The lock of a run without a shim has only blanks in place of a note.
    let (unheld, held): (Vec<_>, Vec<_>) =
        locks.into_iter().partition(|lock| lock.text().trim().is_empty());
    check_these::<LockHolder>(&held, Layout::Compact);
    assert_eq!(unheld.len(), 2);
    for lock in unheld {
        assert_eq!(KernelLock::note::<LockHolder>(&lock.path).unwrap(), None);
    }
}

/// A copy of the index, to open and change.
fn index_copy() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    fs::write(&path, fixtures("v1/state/index.db")[0].bytes()).unwrap();
    (directory, path)
}

/// Sets the version of the index, opens it, and returns the number of runs in it.
fn n_runs_known(version: i32) -> usize {
    let (_directory, path) = index_copy();
    connection(&path).pragma_update(None, "user_version", version).unwrap();
    let filter = RunFilter { which: Which::All, ..RunFilter::default() };
    IndexDatabase::open(&path).unwrap().list(&filter).unwrap().len()
}

#[test]
fn an_index_of_this_version_is_used_and_any_other_is_rebuilt() {
    let (_directory, path) = index_copy();
    let fixture = connection(&path);
    let one = |sql: &str| fixture.query_row(sql, [], |row| row.get::<_, i32>(0)).unwrap();
    let of_fixture = one("SELECT user_version FROM pragma_user_version");
    assert_eq!(of_fixture, 7, "do not change the fixture when you raise the version");
    let n_runs = usize::try_from(one("SELECT count(*) FROM runs")).unwrap();
    assert!(n_runs > 20, "{n_runs}");
    // A rebuilt index is empty at first, and the next refresh fills it from the runs.
    let expected = if of_fixture == VERSION { n_runs } else { 0 };
    assert_eq!(n_runs_known(of_fixture), expected);
    for another in [VERSION - 1, VERSION + 1, -1] {
        assert_eq!(n_runs_known(another), 0, "version {another}");
    }
}
