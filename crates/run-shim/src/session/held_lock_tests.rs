use std::sync::mpsc;
use std::thread;

use super::*;

fn holder() -> Holder {
    Holder {
        run: RunId::generate(),
        pid: std::process::id(),
        since_ms: 5,
        generation: 0,
        path: None,
        uncleaned: Vec::new(),
    }
}

#[test]
fn a_failed_attempt_names_the_holder_and_the_next_holder_learns_who_held_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lease.lock");
    let (first, second) = (holder(), holder());
    let lock = HeldLock::acquire(&path, &first, Patience::FailAtOnce).unwrap();
    assert!(lock.previous.is_none());
    match HeldLock::acquire(&path, &second, Patience::FailAtOnce) {
        Err(LockError::Held(Some(by))) => assert_eq!((by.run, by.generation), (first.run, 1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(HeldLock::holder_of(&path).unwrap().map(|by| by.run), Some(first.run));
    drop(lock);
    assert_eq!(HeldLock::holder_of(&path).unwrap(), None);
    let lock = HeldLock::acquire(&path, &second, Patience::FailAtOnce).unwrap();
    assert_eq!(lock.previous.map(|by| by.run), Some(first.run));
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lease.lock");
    let lock = HeldLock::acquire(&path, &holder(), Patience::FailAtOnce).unwrap();
    let (sender, receiver) = mpsc::channel();
    let waiter = {
        let path = path.clone();
        thread::spawn(move || {
            sender.send("waiting").unwrap();
            let lock = HeldLock::acquire(&path, &holder(), Patience::Wait).unwrap();
            lock.previous.unwrap().generation
        })
    };
    receiver.recv().unwrap();
    drop(lock);
    assert_eq!(waiter.join().unwrap(), 1);
}

#[test]
fn nested_workspaces_refuse_each_other_in_both_directions_and_siblings_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let outer = directory.path().join("outer");
    let inner = outer.join("inner");
    let sibling = directory.path().join("outer-2");
    let locks_directory = directory.path().join("locks");
    for path in [&inner, &sibling, &locks_directory] {
        fs::create_dir_all(path).unwrap();
    }
    let locks = WorkspaceLocks { directory: &locks_directory };
    for (held, asked) in [(&outer, &inner), (&inner, &outer)] {
        let lock = locks.acquire(held, &holder(), Patience::FailAtOnce).unwrap();
        match locks.acquire(asked, &holder(), Patience::FailAtOnce) {
            Err(WorkspaceLockError::Nested { path, .. }) => assert_eq!(path, *held),
            other => panic!("{other:?}"),
        }
        assert!(locks.acquire(&sibling, &holder(), Patience::FailAtOnce).is_ok());
        drop(lock);
    }
    let lock = locks.acquire(&outer, &holder(), Patience::FailAtOnce).unwrap();
    assert!(matches!(
        locks.acquire(&outer, &holder(), Patience::FailAtOnce),
        Err(WorkspaceLockError::Held(Some(_)))
    ));
    drop(lock);
    assert!(locks.acquire(&inner, &holder(), Patience::FailAtOnce).is_ok());
}

#[test]
fn a_holder_that_dies_before_its_cleanup_leaves_the_cleanup_to_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1-2.lock");
    let in_workspace = || Holder { path: Some(BytesPath::from(directory.path())), ..holder() };
    let take = |holder: &Holder| HeldLock::acquire(&path, holder, Patience::FailAtOnce).unwrap();
    let (first, second, third) = (in_workspace(), in_workspace(), in_workspace());
    assert_eq!(take(&first).uncleaned(), []);
    assert_eq!(take(&second).uncleaned(), [first.run]);
    // The same run starts again.
    assert_eq!(take(&second).uncleaned(), [first.run, second.run]);
    let mut lock = take(&third);
    assert_eq!(lock.uncleaned(), [first.run, second.run]);
    lock.note_clean().unwrap();
    assert!(lock.is_current());
    drop(lock);
    assert_eq!(take(&in_workspace()).uncleaned(), [third.run]);
    for _ in 0..2 * MOST_UNCLEANED {
        take(&in_workspace());
    }
    let last = in_workspace();
    drop(take(&last));
    let lock = take(&first);
    assert_eq!(lock.uncleaned().len(), MOST_UNCLEANED, "the note stays short enough to read");
    assert_eq!(lock.uncleaned().last(), Some(&last.run));
}

#[test]
fn a_session_has_nobody_to_clean_up_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lease.lock");
    for _ in 0..3 {
        let lock = HeldLock::acquire(&path, &holder(), Patience::FailAtOnce).unwrap();
        assert_eq!(lock.uncleaned(), []);
    }
}
