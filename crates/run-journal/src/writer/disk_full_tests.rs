//! The journal on a full disk, or at a size limit.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use pretty_assertions::assert_eq;
use run_protocol::{RunEvent, RunId};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::index::RunIndex;
use crate::test_run::{Seen, TestState, add_json, ended, numbers, read, spec, writer};
use crate::{
    CreateRunError, EventNumber, JournalError, JournalWriter, Position, Redaction, RunDirectory,
    RunFilter, StateRoot, test_child,
};

fn passes(command: &mut std::process::Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_batch_that_fits_only_in_part_leaves_whole_lines_and_is_finished_later() {
    let test = TestState::new();
    let directory = test.create();
    // Without the trap, a signal would end the process before a write beyond the limit could fail.
    let wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let state = test.state.path();
    passes(&mut test_child::command("exceed a limit", state, Some(directory.run_id()), &wrapper));

    let seqs: Vec<u64> =
        numbers(&read(&directory, Position::Start)).iter().map(|number| number.seq).collect();
    assert_eq!(seqs, (1..=102).collect::<Vec<_>>());
}

fn limit_file_size(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

pub(crate) fn exceed_a_limit(directory: &RunDirectory) {
    let (_lock, mut writer) = writer(directory);
    add_json(&mut writer, "\"fits\"");
    let before = writer.flush().unwrap();
    let length = || fs::metadata(directory.journal_path()).unwrap().len();
    limit_file_size(Some(length() + 300_000));

    let line = format!("\"{}\"", "x".repeat(10_000));
    for _ in 0..100 {
        add_json(&mut writer, &line);
    }
    assert!(matches!(writer.flush(), Err(JournalError::DiskFull { .. })));
    let visible = writer.visible();
    assert!(visible > before && visible.seq < 100);
    let seen = read(directory, Position::Start);
    assert_eq!(numbers(&seen).last(), Some(&visible));
    assert_eq!(fs::read(directory.journal_path()).unwrap().last(), Some(&b'\n'));

    // Another flush fails too, and changes nothing.
    assert!(matches!(writer.flush(), Err(JournalError::DiskFull { .. })));
    assert_eq!(read(directory, Position::Start), seen);

    limit_file_size(None);
    assert_eq!(writer.flush().unwrap(), EventNumber { epoch: 1, seq: 102 });
    assert!(read(directory, Position::Start).starts_with(&seen));
}

#[test]
fn a_full_disk_has_room_for_the_closing_events_and_nothing_is_left_half_written() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().to_str().unwrap();
    let mount = "mount -t tmpfs -o size=32m none \"$1\" && shift && exec \"$@\"";
    let as_root = ["unshare", "--mount", "sh", "-c"];
    let as_user = ["unshare", "--map-root-user", "--mount", "sh", "-c"];
    let unshare: &[&str] = if nix::unistd::geteuid().is_root() { &as_root } else { &as_user };
    let can_mount = std::process::Command::new(unshare[0])
        .args(&unshare[1..])
        .args([mount, "sh", disk, "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can_mount {
        println!("cannot mount a small disk here, so nothing was tested");
        return;
    }
    let wrapper = [unshare, &[mount, "sh", disk]].concat();
    passes(&mut test_child::command(
        "fill a disk",
        &directory.path().join("state"),
        None,
        &wrapper,
    ));
}

/// Uses up all remaining space.
fn eat(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut piece = vec![1; 1024 * 1024];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn fill_a_disk(state: &StateRoot) {
    let create = |prompt: &[u8]| RunDirectory::create(state, &spec(RunId::generate()), prompt);
    let directory = create(b"x").unwrap();
    let late = create(b"x").unwrap();
    let (lock, mut writer) = writer(&directory);
    let line = format!("\"{}\"", "x".repeat(100_000));
    let full = loop {
        add_json(&mut writer, &line);
        if let Err(err) = writer.flush() {
            break err;
        }
    };
    assert!(matches!(full, JournalError::DiskFull { .. }), "{full}");
    // The reserve is not available to the process that fills the disk.
    eat(&state.path().join("hog"));
    assert!(matches!(writer.flush(), Err(JournalError::DiskFull { .. })));
    assert_eq!(numbers(&read(&directory, Position::Start)).last(), Some(&writer.visible()));

    writer.use_reserve();
    writer.event(8, &RunEvent::DiskFull, Redaction::Untouched);
    let last = writer.event(9, &ended(), Redaction::Untouched);
    assert_eq!(writer.finish().unwrap(), last);
    drop(lock);
    let seen = read(&directory, Position::Start);
    let seqs: Vec<u64> = numbers(&seen).iter().map(|number| number.seq).collect();
    assert_eq!(seqs, (1..=last.seq).collect::<Vec<_>>());
    assert_eq!(seen.last(), Some(&Seen::Run(last, 9, ended())));

    // The reserve is free again. Use that space up too.
    eat(&state.path().join("second hog"));
    let runs_before = names(&state.runs());
    let refused = create(&vec![b'x'; 1024 * 1024]);
    assert!(matches!(refused, Err(CreateRunError::DiskFull { .. })), "{refused:?}");
    assert_eq!(names(&state.runs()), runs_before);
    assert_eq!(names(&state.runs().join(".creating")), Vec::<String>::new());

    let journal_before = fs::read(late.journal_path()).unwrap();
    let lock = late.lock().unwrap();
    let refused = JournalWriter::open(&late, &lock);
    assert!(matches!(refused, Err(JournalError::DiskFull { .. })), "{refused:?}");
    assert_eq!(fs::read(late.journal_path()).unwrap(), journal_before);

    let mut index = RunIndex::open(state).unwrap();
    index.refresh().unwrap();
    assert_eq!(index.list(&RunFilter::default()).unwrap().len(), 2);
}
