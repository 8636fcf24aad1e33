//! Journals that old versions wrote. Every later version must read them, so never change a fixture here.

use std::fs;

use pretty_assertions::assert_eq;
use run_protocol::RunEvent;

use crate::test_run::{OwnedLine, Seen, TestState, add_json, fixtures, numbers, read};
use crate::{
    EventNumber, JournalError, JournalWriter, Position, Redaction, RunDirectory, RunOverview,
    RunState,
};

/// Replaces a run's journal with a fixture.
fn opened(test: &TestState, name: &str) -> RunDirectory {
    let directory = test.create_old();
    fs::copy(fixtures().join("v1").join(name), directory.journal_path()).unwrap();
    directory
}

fn told(seen: &Seen) -> String {
    match seen {
        Seen::Header(epoch) => format!("epoch {epoch}"),
        Seen::Agent(number, at, line, redaction) => {
            let mark = if *redaction == Redaction::Redacted { " redacted" } else { "" };
            let line = match line {
                OwnedLine::Json(text) => format!("json {text}"),
                OwnedLine::Text(text) => format!("text {text:?}"),
                OwnedLine::Bytes(bytes) => format!("bytes {bytes:?}"),
                OwnedLine::Cut { head, length, sha256 } => {
                    format!("cut {:?} {length} {:02x}", String::from_utf8_lossy(head), sha256[31])
                }
            };
            format!("{number} +{}{mark} {line}", at - 1_790_000_000_000)
        }
        Seen::Run(number, at, event) => {
            let event = serde_json::to_string(event).unwrap();
            let kind = event.split('"').nth(3).unwrap_or_default();
            format!("{number} +{} {kind}", at - 1_790_000_000_000)
        }
        Seen::UnknownRun(number, _, raw) => format!("{number} unknown {raw}"),
        Seen::Unreadable(_, bytes) => format!("unreadable {:?}", String::from_utf8_lossy(bytes)),
    }
}

fn told_in(name: &str) -> Vec<String> {
    let test = TestState::new();
    read(&opened(&test, name), Position::Start).iter().map(told).collect()
}

#[test]
fn a_complete_run_of_version_1_opens() {
    let expected = [
        "epoch 1",
        "1 +0 created",
        "2 +10 waiting",
        "3 +20 sandbox_ready",
        "4 +30 released",
        "5 +40 prompt_sent",
        "6 +50 json {\"type\":\"system\", \"subtype\":\"init\"} ",
        "7 +60 text \"Warning: \\\"quoted\\\" \\u{1b}[31mred\\u{1b}[0m\"",
        "8 +70 bytes [255, 0, 97]",
        "9 +80 cut \"{\\\"type\\\":\\\"tool_call\\\"\" 17000000 ab",
        "10 +90 cut \"\u{fffd}\" 17000001 cd",
        "11 +100 redacted json {\"type\":\"assistant\",\"text\":\"the key is [redacted]\"}",
        "12 +110 mcp_call",
        "13 +110 progress",
        "14 +120 reported",
        "15 +130 json {\"type\":\"result\",\"is_error\":false}",
        "16 +140 checkpoint",
        "17 +150 ended",
    ];
    assert_eq!(told_in("complete-run.jsonl"), expected);

    let test = TestState::new();
    let overview = RunOverview::read(&opened(&test, "complete-run.jsonl")).unwrap();
    assert!(matches!(overview.state, RunState::Ended { duration_ms: 150, .. }));
    assert_eq!(overview.name.as_deref(), Some("fixer"));
    assert_eq!(overview.reported.unwrap().summary, "all green");
    assert_eq!(overview.checkpoint.unwrap().messages, 4);
}

#[test]
fn two_epochs_of_version_1_open() {
    let expected = [
        "epoch 1",
        "1 +0 created",
        "2 +30 released",
        "3 +50 json {\"type\":\"system\",\"subtype\":\"init\"}",
        "epoch 2",
        "2:4 +100010 released",
        "2:5 +100020 redacted json {\"type\":\"result\",\"is_error\":true}",
        "2:6 +100030 ended",
    ];
    assert_eq!(told_in("two-epochs.jsonl"), expected);
}

#[test]
fn foreign_lines_in_a_journal_of_version_1_are_shown_as_they_are() {
    let expected = [
        "epoch 1",
        "1 +0 created",
        "2 +30 json {\"type\": \"user\"}",
        "unreadable \"somebody typed this\"",
        "3 unknown {\"kind\":\"teleported\",\"to\":\"mars\"}",
        "unreadable \"{\\\"seq\\\":4,\\\"at\\\":1790000000050,\\\"agent_b64\\\":\\\"not base64\\\"}\"",
        "unreadable \"\"",
        "5 +60 released",
    ];
    assert_eq!(told_in("foreign-lines.jsonl"), expected);
}

#[test]
fn a_torn_journal_of_version_1_is_read_and_continued() {
    let expected =
        ["epoch 1", "1 +0 created", "2 +30 json {\"type\":\"system\",\"subtype\":\"init\"}"];
    assert_eq!(told_in("torn-tail.jsonl"), expected);
}

#[test]
fn every_journal_of_version_1_can_be_continued_unless_it_is_complete() {
    for entry in fs::read_dir(fixtures().join("v1")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let test = TestState::new();
        let directory = opened(&test, &name);
        let before = read(&directory, Position::Start);
        let last = *numbers(&before).last().unwrap();
        let lock = directory.lock().unwrap();
        let opened = JournalWriter::open(&directory, &lock);
        if let Some(Seen::Run(_, _, RunEvent::Ended { .. })) = before.last() {
            assert!(matches!(opened, Err(JournalError::Ended)), "{name}");
            continue;
        }
        let mut writer = opened.unwrap();
        let next = EventNumber { epoch: last.epoch + 1, seq: last.seq + 1 };
        assert_eq!(add_json(&mut writer, "{}"), next, "{name}");
        writer.flush().unwrap();
        assert!(read(&directory, Position::Start).starts_with(&before), "{name}");
        assert_eq!(numbers(&read(&directory, Position::After(last))), [next], "{name}");
    }
}
