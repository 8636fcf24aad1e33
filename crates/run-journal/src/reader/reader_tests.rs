use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use run_protocol::JournalHeader;
use tempfile::TempDir;

use super::*;
use crate::journal::line_encoding::tests::any_line;
use crate::journal::line_encoding::{push_agent_line, push_header};
use crate::test_run::{OwnedLine, Seen, TestState, drain, first, numbers, read, read_file};
use crate::{AgentLine, LineEnding, Redaction};

/// A journal of two epochs and some damage, as bytes.
fn journal(lines: &[OwnedLine], second_epoch_at: usize, damaged_at: usize) -> Vec<u8> {
    let run = "0191d0f6-0000-7000-8000-0123456789ab".parse().unwrap();
    let header = |epoch| JournalHeader { journal: 1, run, epoch, at: 1, boot: None };
    let mut text = Vec::new();
    push_header(&mut text, &header(1));
    let mut epoch = 1;
    for (n_before, line) in lines.iter().enumerate() {
        if n_before == second_epoch_at {
            epoch = 2;
            push_header(&mut text, &header(epoch));
        }
        if n_before == damaged_at {
            text.extend_from_slice(b"{\"seq\": what\n\0\0\0\n");
        }
        let number = EventNumber { epoch, seq: n_before as u64 + 1 };
        push_agent_line(
            &mut text,
            number,
            5,
            line.borrowed(),
            LineEnding::LineFeed,
            Redaction::Untouched,
        );
    }
    text
}

fn any_journal() -> impl Strategy<Value = Vec<u8>> {
    (vec(any_line(), 0..30), 0..40usize, 0..40usize).prop_map(
        |(lines, second_epoch_at, damaged_at)| journal(&lines, second_epoch_at, damaged_at),
    )
}

/// A journal whose lines fill several chunks, so that a reader must seek to find a line.
fn large_journal() -> Vec<u8> {
    let line = |seq: usize| OwnedLine::Json(format!("[{seq},\"{}\"]", "x".repeat(seq * 37 % 9000)));
    let lines: Vec<OwnedLine> = (1..=400).map(line).collect();
    journal(&lines, 300, 150)
}

fn in_file(content: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    fs::write(&path, content).unwrap();
    (directory, path)
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// The entries after `number`, chosen from all entries.
fn naive_after(all: &[Seen], number: EventNumber) -> Vec<Seen> {
    let is_after = |seen: &Seen| match seen {
        Seen::Header(epoch) => *epoch > number.epoch,
        other => other.number().is_some_and(|other| other > number),
    };
    let exact = all.iter().position(|seen| seen.number() == Some(number)).map(|place| place + 1);
    let start = exact.or_else(|| all.iter().position(is_after)).unwrap_or(all.len());
    all[start..].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_journal_cut_at_any_byte_gives_the_entries_of_its_whole_lines(text in any_journal(), place: Index) {
        let (_directory, path) = in_file(&text);
        let all = read_file(&path, Position::Start);
        let cut = place.index(text.len() + 1);
        fs::write(&path, &text[..cut]).unwrap();
        let n_whole = memchr::memchr_iter(b'\n', &text[..cut]).count();
        prop_assert_eq!(read_file(&path, Position::Start), &all[..n_whole]);
    }

    #[test]
    fn however_a_journal_grows_each_line_is_read_once(text in any_journal(), cuts in vec(any::<Index>(), 0..6)) {
        let (_directory, path) = in_file(&text);
        let all = read_file(&path, Position::Start);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();

        fs::write(&path, b"").unwrap();
        let mut reader = JournalReader::over(File::open(&path).unwrap(), Position::Start).unwrap();
        let mut seen = Vec::new();
        for pair in places.windows(2) {
            append(&path, &text[pair[0]..pair[1]]);
            seen.extend(drain(&mut reader));
        }
        prop_assert_eq!(seen, all);
    }

    #[test]
    fn reading_can_continue_after_any_event_number(text in any_journal(), epoch in 0..4u32, seq in 0..40u64) {
        let (_directory, path) = in_file(&text);
        let all = read_file(&path, Position::Start);
        let number = EventNumber { epoch, seq };
        prop_assert_eq!(read_file(&path, Position::After(number)), naive_after(&all, number));
    }

    #[test]
    fn a_tail_gives_the_last_lines_and_does_not_count_headers(text in any_journal(), n_lines in 0..40u64) {
        let (_directory, path) = in_file(&text);
        let all = read_file(&path, Position::Start);
        let mut n_left = n_lines;
        let mut expected: Vec<Seen> = all.iter().rev().take_while(|seen| {
            let is_header = matches!(seen, Seen::Header(_));
            let is_wanted = n_left > 0;
            n_left = n_left.saturating_sub(u64::from(!is_header));
            is_wanted
        }).cloned().collect();
        expected.reverse();
        prop_assert_eq!(read_file(&path, Position::Tail(n_lines)), expected);
    }

    #[test]
    fn garbage_is_read_from_any_position_without_a_panic(
        bytes in vec(prop_oneof![Just(b'\n'), Just(b'{'), any::<u8>()], 0..400),
        seq: u64,
        n_lines: u64,
    ) {
        let (_directory, path) = in_file(&bytes);
        let n_whole = memchr::memchr_iter(b'\n', &bytes).count();
        prop_assert_eq!(read_file(&path, Position::Start).len(), n_whole);
        prop_assert!(read_file(&path, Position::Tail(n_lines)).len() <= n_whole);
        prop_assert!(read_file(&path, Position::After(first(seq))).len() <= n_whole);
    }
}

#[test]
fn in_a_large_journal_every_number_is_found() {
    let (_directory, path) = in_file(&large_journal());
    let all = read_file(&path, Position::Start);
    assert_eq!(numbers(&all).len(), 400);
    for number in numbers(&all).into_iter().chain([first(0), first(350), first(9999)]) {
        assert_eq!(
            read_file(&path, Position::After(number)),
            naive_after(&all, number),
            "{number}"
        );
    }
    for n_lines in [1, 7, 100, 399, 400, 401] {
        let tail = read_file(&path, Position::Tail(n_lines));
        assert_eq!(tail.last(), all.last());
        let n_seen = tail.iter().filter(|seen| !matches!(seen, Seen::Header(_))).count() as u64;
        assert_eq!(n_seen, n_lines.min(402));
    }
}

#[test]
fn the_tail_of_a_huge_journal_is_found_without_reading_the_rest() {
    // Everything before the last lines is a hole: it takes no disk space, and reading it would take too long.
    let (_directory, path) = in_file(b"");
    let mut tail = b"\n".to_vec();
    for seq in 1..=50 {
        let number = first(seq);
        push_agent_line(
            &mut tail,
            number,
            5,
            AgentLine::Json(b"{}"),
            LineEnding::LineFeed,
            Redaction::Untouched,
        );
    }
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&tail, 1 << 40).unwrap();
    let seen = read_file(&path, Position::Tail(50));
    assert_eq!(numbers(&seen).len(), 50);
    assert_eq!(seen.len(), 50);
}

#[test]
fn a_reader_waits_for_an_event_number_that_does_not_exist_yet() {
    let (_directory, path) = in_file(&journal(&[], 9, 9));
    let from = Position::After(first(2));
    let mut reader = JournalReader::over(File::open(&path).unwrap(), from).unwrap();
    assert_eq!(drain(&mut reader), []);
    let line = |seq| {
        let mut line = Vec::new();
        push_agent_line(
            &mut line,
            first(seq),
            5,
            AgentLine::Json(b"{}"),
            LineEnding::LineFeed,
            Redaction::Untouched,
        );
        line
    };
    append(&path, &line(1));
    append(&path, &line(2));
    assert_eq!(drain(&mut reader), []);
    append(&path, &line(3));
    assert_eq!(numbers(&drain(&mut reader)), [first(3)]);
}

#[test]
fn a_line_longer_than_one_chunk_is_read_as_one_line() {
    let long = OwnedLine::Json(format!("\"{}\"", "x".repeat(3 * CHUNK)));
    let lines = [OwnedLine::Json("1".to_owned()), long, OwnedLine::Json("3".to_owned())];
    let (_directory, path) = in_file(&journal(&lines, 9, 9));
    let seen = read_file(&path, Position::Start);
    let kept: Vec<_> = seen
        .into_iter()
        .filter_map(|seen| match seen {
            Seen::Agent(_, _, line, _) => Some(line),
            _ => None,
        })
        .collect();
    assert_eq!(kept, lines);
}

#[test]
fn a_line_that_was_cut_and_rewritten_between_two_reads_is_read_again() {
    // The first read ends in the middle of a line that its writer never finished.
    let mut text = journal(&[OwnedLine::Text("a".to_owned())], 9, 9);
    let whole = text.len() as u64;
    let torn = format!("{{\"seq\":2,\"at\":5,\"agent\":\"{}", "x".repeat(2 * CHUNK));
    text.extend_from_slice(torn.as_bytes());
    let (_directory, path) = in_file(&text);
    let mut reader = JournalReader::over(File::open(&path).unwrap(), Position::Start).unwrap();
    let mut seen: Vec<Seen> = Vec::new();
    let progress = reader.next_batch(&mut |entry| seen.push(entry.into())).unwrap();
    assert_eq!(progress, Progress::Advanced);
    assert!(reader.n_read > 0);

    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(whole).unwrap();
    let mut anew = Vec::new();
    let number = EventNumber { epoch: 2, seq: 2 };
    let line = format!("\"{}\"", "y".repeat(3 * CHUNK));
    push_agent_line(
        &mut anew,
        number,
        5,
        AgentLine::Json(line.as_bytes()),
        LineEnding::LineFeed,
        Redaction::Untouched,
    );
    append(&path, &anew);
    seen.extend(drain(&mut reader));
    let expected = Seen::Agent(number, 5, OwnedLine::Json(line), Redaction::Untouched);
    assert_eq!(seen.last(), Some(&expected));
    assert_eq!(numbers(&seen), [first(1), number]);
}

#[test]
fn a_line_over_the_ceiling_is_shown_in_part_and_skipped() {
    let (_directory, path) = in_file(b"");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let length = LINE_CEILING as u64 + 5;
    let mut rest = b"\n".to_vec();
    push_agent_line(
        &mut rest,
        first(2),
        5,
        AgentLine::Json(b"{}"),
        LineEnding::LineFeed,
        Redaction::Untouched,
    );
    file.write_all_at(&rest, length).unwrap();
    let mut reader = JournalReader::over(File::open(&path).unwrap(), Position::Start).unwrap();
    let mut lengths = Vec::new();
    let mut numbers = Vec::new();
    while reader
        .next_batch(&mut |entry| match entry {
            JournalEntry::Unreadable { offset, length, bytes } => {
                lengths.push((offset, length, bytes.len()));
            }
            other => numbers.extend(other.number()),
        })
        .unwrap()
        == Progress::Advanced
    {}
    assert_eq!(lengths, [(0, length, SHOWN_OF_OVERLONG)]);
    assert_eq!(numbers, [first(2)]);
}

#[test]
fn a_journal_of_a_newer_version_is_refused_whatever_its_header_looks_like() {
    for header in ["{\"journal\":2}", "{\"now\":[1],\"journal\":2,\"run\":17}"] {
        let (_directory, path) = in_file(format!("{header}\n").as_bytes());
        let refused = JournalReader::over(File::open(&path).unwrap(), Position::Start);
        assert!(matches!(refused, Err(OpenJournalError::Newer { version: 2 })));
    }
}

#[test]
fn a_journal_behind_a_link_is_not_read() {
    let test = TestState::new();
    let directory = test.create();
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(directory.journal_path(), &elsewhere).unwrap();
    symlink(&elsewhere, directory.journal_path()).unwrap();
    let refused = JournalReader::open(&directory, Position::Start);
    assert!(matches!(refused, Err(OpenJournalError::Open(_))));
}

#[test]
fn any_number_of_readers_see_the_same() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = crate::test_run::writer(&directory);
    let n_lines = 2000;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut reader = JournalReader::open(&directory, Position::Start).unwrap();
                    let mut seen = Vec::new();
                    while numbers(&seen).last() != Some(&first(n_lines + 1)) {
                        seen.extend(drain(&mut reader));
                    }
                    seen
                })
            })
            .collect();
        for seq in 0..n_lines {
            let line = format!("\"{}\"", "x".repeat(seq as usize * 31 % 5000));
            writer.agent_line(
                5,
                AgentLine::Json(line.as_bytes()),
                LineEnding::LineFeed,
                Redaction::Untouched,
            );
            if seq % 7 == 0 {
                writer.flush().unwrap();
            }
        }
        writer.flush().unwrap();
        let all = read(&directory, Position::Start);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), all);
        }
    });
}
