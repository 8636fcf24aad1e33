//! The journal after its writer was killed at any moment.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pretty_assertions::assert_eq;

use crate::test_run::{Seen, TestState, add_json, drain, ended, first, numbers, read, writer};
use crate::{
    EventNumber, Follower, JournalReader, Position, Redaction, RunDirectory, Woken, WriterPresence,
    test_child,
};

/// The child writes batches of all sizes. After each batch it prints the last event that readers must see from now on.
pub(crate) fn write_until_killed(directory: &RunDirectory) {
    let (_lock, mut writer) = writer(directory);
    let line = format!("\"{}\"", "x".repeat(50_000));
    for n_before in 0usize.. {
        for n_line in 0..=n_before * 7 % 23 {
            add_json(&mut writer, &format!("[{n_before},{n_line},{line}]"));
            add_json(&mut writer, "{}");
        }
        println!(" {}", writer.flush().unwrap());
    }
}

/// The child writes one event and waits to be killed.
pub(crate) fn write_a_little_and_wait(directory: &RunDirectory) {
    let (_lock, mut writer) = writer(directory);
    add_json(&mut writer, "{}");
    println!(" {}", writer.flush().unwrap());
    loop {
        std::thread::park();
    }
}

fn start(
    role: &str,
    test: &TestState,
    directory: &RunDirectory,
) -> (Child, impl Iterator<Item = EventNumber>) {
    let mut child = test_child::command(role, test.state.path(), Some(directory.run_id()), &[])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let said = stdout
        .lines()
        .filter_map(|line| line.unwrap().rsplit(' ').next().and_then(|word| word.parse().ok()));
    (child, said)
}

fn length(directory: &RunDirectory) -> u64 {
    fs::metadata(directory.journal_path()).unwrap().len()
}

fn whole_lines(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |last| last + 1));
    bytes
}

#[test]
fn a_writer_killed_at_any_moment_leaves_whole_lines_that_never_change() {
    let test = TestState::new();
    let directory = test.create();
    let is_over = AtomicBool::new(false);
    let mut n_torn = 0;
    std::thread::scope(|scope| {
        let live_reader = scope.spawn(|| {
            let mut reader = JournalReader::open(&directory, Position::Start).unwrap();
            let mut follower = Follower::new(&directory, Path::new("/nonexistent/control.sock"));
            let mut seen = Vec::new();
            loop {
                let was_over = is_over.load(Ordering::SeqCst);
                seen.extend(drain(&mut reader));
                if was_over {
                    return seen;
                }
                if follower.wait(Some(Duration::from_millis(100))).unwrap() == Woken::WriterGone {
                    std::thread::yield_now();
                }
            }
        });

        for n_batches in [1, 2, 3, 5, 8, 13, 4, 6, 7, 9] {
            let before = whole_lines(&directory.journal_path());
            let (mut child, mut said) = start("write until killed", &test, &directory);
            let mut promised = said.nth(n_batches - 1).unwrap();
            // When the file begins to grow, the child is in the middle of a write.
            let length_before = length(&directory);
            while length(&directory) == length_before {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            promised = said.last().unwrap_or(promised);

            assert!(!directory.is_live());
            let after = whole_lines(&directory.journal_path());
            assert!(after.starts_with(&before), "a whole line has changed");
            n_torn += usize::from(
                fs::metadata(directory.journal_path()).unwrap().len() > after.len() as u64,
            );
            let numbers = numbers(&read(&directory, Position::Start));
            assert!(numbers.is_sorted_by(|one, next| one < next), "a number was repeated");
            assert!(numbers.contains(&promised), "a flushed event is gone");
        }

        let (lock, mut last_writer) = writer(&directory);
        last_writer.event(9, &ended(), Redaction::Untouched);
        last_writer.finish().unwrap();
        drop(lock);
        is_over.store(true, Ordering::SeqCst);
        let all = read(&directory, Position::Start);
        let seen = live_reader.join().unwrap();
        assert_eq!(numbers(&seen), numbers(&all));
        assert!(seen == all, "a reader saw something other than the journal's content");
        let n_epochs = all.iter().filter(|seen| matches!(seen, Seen::Header(_))).count();
        assert_eq!(n_epochs, 11);
        assert!(!all.iter().any(|seen| matches!(seen, Seen::Unreadable(..))));
    });
    println!("{n_torn} of 10 kills tore a line");
}

#[test]
fn a_follower_learns_that_the_writer_was_killed() {
    let test = TestState::new();
    let directory = test.create();
    let (mut child, mut said) = start("write a little and wait", &test, &directory);
    assert_eq!(said.next(), Some(first(2)));
    let mut follower = Follower::new(&directory, Path::new("/nonexistent/control.sock"));
    let killer = std::thread::spawn(move || {
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let limit = Some(Duration::from_secs(20));
    let gone = loop {
        match follower.wait(limit).unwrap() {
            Woken::Grown => {}
            other => break other,
        }
    };
    killer.join().unwrap();
    assert_eq!(gone, Woken::WriterGone);
    assert!(matches!(directory.writer().unwrap(), WriterPresence::Gone(Some(_))));
}
