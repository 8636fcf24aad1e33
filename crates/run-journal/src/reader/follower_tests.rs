use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use pretty_assertions::assert_eq;
use run_protocol::{ControlReply, ControlRequest, JOURNAL_VERSION, RunId};

use super::*;
use crate::test_run::{TestState, add_json, writer};

/// Far longer than any wait here should take; a test that waits this long has failed.
const LONG: Option<Duration> = Some(Duration::from_secs(20));
const NO_TIME: Option<Duration> = Some(Duration::ZERO);

/// Waits until there is nothing new.
fn settle(follower: &mut Follower) {
    while follower.wait(NO_TIME).unwrap() == Woken::Grown {}
}

/// Waits until something other than growth happens.
fn wait_for_end(follower: &mut Follower) -> Woken {
    loop {
        match follower.wait(LONG).unwrap() {
            Woken::Grown => {}
            other => return other,
        }
    }
}

struct FakeShim {
    listener: UnixListener,
    path: PathBuf,
}

impl FakeShim {
    fn new(directory: &RunDirectory) -> Self {
        let path = directory.path().join("control.sock");
        Self { listener: UnixListener::bind(&path).unwrap(), path }
    }

    /// Answers a client like the shim of `run`.
    fn accept(&self, run: RunId) -> UnixStream {
        let (mut stream, _) = self.listener.accept().unwrap();
        say(&mut stream, &ControlReply::Hello { run, journal: JOURNAL_VERSION });
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        assert_eq!(
            serde_json::from_str::<ControlRequest>(&request).unwrap(),
            ControlRequest::Watch
        );
        say(&mut stream, &ControlReply::Grown { epoch: 1, seq: 1 });
        stream
    }
}

fn say(stream: &mut UnixStream, reply: &ControlReply) {
    let line = serde_json::to_string(reply).unwrap() + "\n";
    // Writes two pieces, because it must not matter where the bytes are cut.
    let (one, other) = line.split_at(line.len() / 2);
    stream.write_all(one.as_bytes()).unwrap();
    stream.write_all(other.as_bytes()).unwrap();
}

#[test]
fn without_a_socket_changes_to_the_file_wake_the_follower() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut writer) = writer(&directory);
    let mut follower = Follower::new(&directory, Path::new("/nonexistent/control.sock"));
    assert_eq!(follower.wait(LONG).unwrap(), Woken::Grown);
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Files(_)));

    for _ in 0..3 {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| follower.wait(LONG).unwrap());
            add_json(&mut writer, "{}");
            writer.flush().unwrap();
            assert_eq!(waiter.join().unwrap(), Woken::Grown);
        });
        settle(&mut follower);
    }

    drop(lock);
    drop(writer);
    assert_eq!(wait_for_end(&mut follower), Woken::WriterGone);
}

#[test]
fn a_write_between_two_waits_wakes_the_second() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    let mut follower = Follower::new(&directory, Path::new("/nonexistent/control.sock"));
    settle(&mut follower);
    add_json(&mut writer, "{}");
    writer.flush().unwrap();
    assert_eq!(follower.wait(NO_TIME).unwrap(), Woken::Grown);
    settle(&mut follower);
}

#[test]
fn a_report_from_the_shim_wakes_the_follower_without_inotify() {
    let test = TestState::new();
    let directory = test.create();
    let _writer = writer(&directory);
    let shim = FakeShim::new(&directory);
    let mut follower = Follower::new(&directory, &shim.path);
    assert_eq!(follower.wait(LONG).unwrap(), Woken::Grown);
    let mut stream = shim.accept(directory.run_id());
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Socket(_)));

    say(&mut stream, &ControlReply::Grown { epoch: 1, seq: 2 });
    assert_eq!(follower.wait(LONG).unwrap(), Woken::Grown);
    // Unknown replies, and replies to other requests, do not count as growth.
    stream.write_all(b"{\"reply\":\"sang\"}\nnoise\n").unwrap();
    say(&mut stream, &ControlReply::Ok);
    assert_eq!(follower.wait(NO_TIME).unwrap(), Woken::TimedOut);
}

#[test]
fn when_the_socket_closes_the_file_wakes_the_follower_instead() {
    let test = TestState::new();
    let directory = test.create();
    let (lock, mut writer) = writer(&directory);
    let shim = FakeShim::new(&directory);
    let mut follower = Follower::new(&directory, &shim.path);
    follower.wait(LONG).unwrap();
    let stream = shim.accept(directory.run_id());
    settle(&mut follower);
    drop(stream);
    drop(shim);
    assert_eq!(follower.wait(LONG).unwrap(), Woken::Grown);
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Files(_)));

    add_json(&mut writer, "{}");
    writer.flush().unwrap();
    assert_eq!(follower.wait(LONG).unwrap(), Woken::Grown);
    drop(lock);
    drop(writer);
    assert_eq!(wait_for_end(&mut follower), Woken::WriterGone);
}

#[test]
fn a_socket_that_turns_up_later_is_used() {
    let test = TestState::new();
    let directory = test.create();
    let path = directory.path().join("control.sock");
    let mut follower = Follower::new(&directory, &path);
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Files(_)));

    let shim = FakeShim::new(&directory);
    // No process holds the lock, so the socket does not belong to a shim.
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Files(_)));
    let _writer = writer(&directory);
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Socket(_)));
    shim.accept(directory.run_id());
}

#[test]
fn the_socket_of_another_run_is_not_listened_to() {
    let test = TestState::new();
    let directory = test.create();
    let _writer = writer(&directory);
    let shim = FakeShim::new(&directory);
    let mut follower = Follower::new(&directory, &shim.path);
    follower.wait(LONG).unwrap();
    let _stream = shim.accept(RunId::generate());
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Files(_)));
}

#[test]
fn a_silent_shim_delays_its_readers_only_briefly() {
    let test = TestState::new();
    let directory = test.create();
    let (_lock, mut writer) = writer(&directory);
    let shim = FakeShim::new(&directory);
    let mut follower = Follower::new(&directory, &shim.path);
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Socket(_)));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| follower.wait(LONG).unwrap());
        add_json(&mut writer, "{}");
        writer.flush().unwrap();
        assert_eq!(waiter.join().unwrap(), Woken::Grown);
    });
}

#[test]
fn a_follower_waits_for_a_new_run_to_begin_but_not_for_an_old_one_that_never_began() {
    let test = TestState::new();
    let new = test.create();
    let mut follower = Follower::new(&new, Path::new("/nonexistent/control.sock"));
    settle(&mut follower);
    assert_eq!(follower.wait(Some(Duration::from_millis(5))).unwrap(), Woken::TimedOut);

    let old = test.create_old();
    let mut follower = Follower::new(&old, Path::new("/nonexistent/control.sock"));
    assert_eq!(follower.wait(LONG).unwrap(), Woken::WriterGone);
}

#[test]
fn a_journal_that_cannot_be_watched_is_checked_now_and_then() {
    let test = TestState::new();
    let directory = test.create();
    let journal = std::fs::read(directory.journal_path()).unwrap();
    // A missing file cannot be watched.
    std::fs::remove_file(directory.journal_path()).unwrap();
    let mut follower = Follower::new(&directory, Path::new("/nonexistent/control.sock"));
    settle(&mut follower);
    assert!(matches!(follower.source, Source::Slow));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| follower.wait(Some(Duration::MAX)).unwrap());
        std::fs::write(directory.journal_path(), journal).unwrap();
        assert_eq!(waiter.join().unwrap(), Woken::Grown);
    });
}
