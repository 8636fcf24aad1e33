use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use run_protocol::RunId;

use super::*;
use crate::Position;
use crate::journal::line_encoding::tests::{any_line, any_redaction};
use crate::test_run::{Seen, TestState, add_json, ended, first, numbers, read, spec, writer};

fn second(seq: u64) -> EventNumber {
    EventNumber { epoch: 2, seq }
}

fn bytes(directory: &RunDirectory) -> Vec<u8> {
    fs::read(directory.journal_path()).unwrap()
}

#[test]
fn the_first_writer_goes_on_where_the_creation_ended() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    assert_eq!(add_json(&mut writer, "{}"), first(2));
    assert_eq!(writer.event(8, &RunEvent::Released, Redaction::Untouched), first(3));
    assert_eq!(writer.flush().unwrap(), first(3));
    assert_eq!(writer.visible(), first(3));
    assert_eq!(numbers(&read(&directory, Position::Start)), [first(1), first(2), first(3)]);
}

#[test]
fn readers_see_nothing_before_the_flush() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    let before = bytes(&directory);
    add_json(&mut writer, "{}");
    assert!(writer.pending_bytes() > 0);
    assert_eq!(bytes(&directory), before);
    writer.flush().unwrap();
    assert_eq!(writer.pending_bytes(), 0);
    assert_eq!(numbers(&read(&directory, Position::Start)), [first(1), first(2)]);
}

#[test]
fn a_writer_that_wrote_nothing_leaves_the_epoch_to_the_next() {
    let test = TestState::new();
    let directory = test.create();
    let before = bytes(&directory);
    drop(writer(&directory));
    assert_eq!(bytes(&directory), before);
    let (_lock, mut writer) = writer(&directory);
    assert_eq!(add_json(&mut writer, "{}"), first(2));
}

#[test]
fn the_next_writer_begins_a_new_epoch_and_repeats_no_number() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut one) = writer(&directory);
    add_json(&mut one, "1");
    one.finish().unwrap();
    drop(lock);
    let before = bytes(&directory);

    let (lock, mut two) = writer(&directory);
    assert_eq!(add_json(&mut two, "2"), second(3));
    two.finish().unwrap();
    drop(lock);
    // An epoch without events counts too.
    drop(writer(&directory));
    let (_lock, mut four) = writer(&directory);
    assert_eq!(add_json(&mut four, "4"), EventNumber { epoch: 4, seq: 4 });
    four.flush().unwrap();

    assert!(bytes(&directory).starts_with(&before));
    let seen = read(&directory, Position::Start);
    let expected = [first(1), first(2), second(3), EventNumber { epoch: 4, seq: 4 }];
    assert_eq!(numbers(&seen), expected);
    let epochs: Vec<_> = seen.iter().filter(|seen| matches!(seen, Seen::Header(_))).collect();
    assert_eq!(epochs, [&Seen::Header(1), &Seen::Header(2), &Seen::Header(3), &Seen::Header(4)]);
}

#[test]
fn a_torn_last_line_is_cut_and_its_number_is_not_used_again_in_that_epoch() {
    let test = TestState::new();
    let directory = test.create();
    let whole = bytes(&directory);
    let mut file = fs::OpenOptions::new().append(true).open(directory.journal_path()).unwrap();
    file.write_all(b"{\"seq\":2,\"at\":5,\"agent\":{\"half").unwrap();
    assert_eq!(numbers(&read(&directory, Position::Start)), [first(1)]);

    let (_lock, mut writer) = writer(&directory);
    assert_eq!(add_json(&mut writer, "{}"), second(2));
    writer.flush().unwrap();
    let now = bytes(&directory);
    assert!(now.starts_with(&whole));
    assert!(!now[whole.len()..].starts_with(b"{\"seq\":2,\"at\":5"));
    assert_eq!(numbers(&read(&directory, Position::Start)), [first(1), second(2)]);
}

#[test]
fn after_a_restart_of_the_machine_a_new_epoch_begins_even_if_nothing_seems_to_have_happened() {
    let test = TestState::new();
    let directory = test.create();
    let text = fs::read_to_string(directory.journal_path()).unwrap();
    let boot = boot_id().expect("this kernel has a boot id");
    fs::write(directory.journal_path(), text.replace(&boot, "another-start")).unwrap();
    let (_lock, mut writer) = writer(&directory);
    assert_eq!(add_json(&mut writer, "{}"), second(2));
}

#[test]
fn nothing_is_written_after_the_end() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut writer) = writer(&directory);
    writer.event(9, &ended(), Redaction::Untouched);
    writer.finish().unwrap();
    let before = bytes(&directory);
    assert!(matches!(JournalWriter::open(&directory, &lock), Err(JournalError::Ended)));
    assert_eq!(bytes(&directory), before);
}

#[test]
fn only_the_holder_of_the_runs_own_lock_may_write() {
    let test = TestState::new();
    let (one, other) = (test.create(), test.create());
    let lock = other.lock().unwrap();
    assert!(matches!(JournalWriter::open(&one, &lock), Err(JournalError::ForeignLock)));
}

#[test]
fn the_lock_is_held_as_long_as_the_writer_lives() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, writer) = writer(&directory);
    drop(lock);
    assert!(directory.is_live());
    drop(writer);
    assert!(!directory.is_live());
}

#[test]
fn a_damaged_journal_or_one_of_another_version_is_not_written_to() {
    let test = TestState::new();
    let directory = test.create();
    let text = fs::read_to_string(directory.journal_path()).unwrap();
    let lock = directory.lock().unwrap();
    for (text, is_expected) in [
        (String::new(), (|err| matches!(err, JournalError::Damaged)) as fn(&JournalError) -> bool),
        ("garbage\n".to_owned(), |err| matches!(err, JournalError::Damaged)),
        (text.replacen("\"journal\":1", "\"journal\":2", 1), |err| {
            matches!(err, JournalError::OtherVersion { version: 2 })
        }),
    ] {
        fs::write(directory.journal_path(), &text).unwrap();
        let err = JournalWriter::open(&directory, &lock).unwrap_err();
        assert!(is_expected(&err), "{err:?}");
        assert_eq!(fs::read_to_string(directory.journal_path()).unwrap(), text);
    }
}

#[test]
fn space_is_set_aside_while_a_writer_lives_and_given_back_at_the_end() {
    let test = TestState::new();
    let directory = test.create();
    let blocks = || fs::metadata(directory.journal_path()).unwrap().blocks() * 512;
    let before = blocks();
    let (_lock, mut writer) = writer(&directory);
    if blocks() == before {
        println!("this file system cannot reserve space");
        return;
    }
    let line = format!("\"{}\"", "x".repeat(1024 * 1024));
    for _ in 0..20 {
        add_json(&mut writer, &line);
        let end = fs::metadata(directory.journal_path()).unwrap().len();
        assert!(blocks() >= end + 8 * 1024 * 1024);
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    let length = fs::metadata(directory.journal_path()).unwrap().len();
    assert!(blocks() < length + 1024 * 1024);
}

#[test]
fn discarded_lines_give_their_numbers_back() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    add_json(&mut writer, "1");
    writer.flush().unwrap();
    add_json(&mut writer, "2");
    add_json(&mut writer, "3");
    assert_eq!(writer.discard_pending(), 2);
    assert_eq!(writer.event(9, &ended(), Redaction::Untouched), first(3));
    assert_eq!(writer.finish().unwrap(), first(3));
    assert_eq!(numbers(&read(&directory, Position::Start)), [first(1), first(2), first(3)]);
}

#[test]
fn syncing_returns_when_it_is_done_and_may_be_repeated() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    for _ in 0..3 {
        add_json(&mut writer, "{}");
        writer.flush().unwrap();
        writer.sync_soon();
        writer.sync_now().unwrap();
        writer.sync_now().unwrap();
    }
}

#[test]
fn a_huge_line_does_not_keep_its_memory() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    add_json(&mut writer, &format!("\"{}\"", "x".repeat(16 * 1024 * 1024)));
    writer.flush().unwrap();
    assert!(writer.batch.capacity() <= BUFFER_KEPT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_of_any_lines_are_read_back_exactly(
        batches in vec(vec((any_line(), any_redaction(), any::<u64>()), 0..5), 0..5),
    ) {
        let test = TestState::new();
        let run = RunId::generate();
        let directory = RunDirectory::create(&test.state, &spec(run), b"x").unwrap();
        let mut expected = read(&directory, Position::Start);
        let (_lock, mut writer) = writer(&directory);
        for batch in batches {
            for (line, redaction, at) in batch {
                let number = writer.agent_line(at, line.borrowed(), LineEnding::LineFeed, redaction);
                expected.push(Seen::Agent(number, at, line, redaction));
            }
            let visible = writer.flush().unwrap();
            prop_assert_eq!(Some(visible), numbers(&expected).last().copied());
        }
        prop_assert_eq!(read(&directory, Position::Start), expected);
    }
}
