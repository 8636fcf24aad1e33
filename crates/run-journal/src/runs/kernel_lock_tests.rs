use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use super::*;

fn lock_file() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.lock");
    (directory, path)
}

#[test]
fn only_one_process_holds_a_lock_and_looking_does_not_take_it() {
    let (_directory, path) = lock_file();
    assert!(!KernelLock::is_held(&path).unwrap());
    assert_eq!(KernelLock::look::<String>(&path).unwrap(), None);

    let lock = KernelLock::try_take(&path).unwrap().unwrap();
    assert!(KernelLock::try_take(&path).unwrap().is_none());
    assert!(KernelLock::is_held(&path).unwrap());
    assert_eq!(KernelLock::look::<String>(&path).unwrap(), Some(LockSight::Held(None)));

    drop(lock);
    assert!(!KernelLock::is_held(&path).unwrap());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_note_is_replaced_and_outlives_its_holder() {
    let (_directory, path) = lock_file();
    let lock = KernelLock::try_take(&path).unwrap().unwrap();
    lock.set_note(&"a rather long note").unwrap();
    lock.set_note(&"short").unwrap();
    assert_eq!(KernelLock::look(&path).unwrap(), Some(LockSight::Held(Some("short".to_owned()))));
    drop(lock);
    assert_eq!(KernelLock::look(&path).unwrap(), Some(LockSight::Free(Some("short".to_owned()))));
    assert_eq!(KernelLock::note::<u32>(&path).unwrap(), None);
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let (_directory, path) = lock_file();
    let lock = KernelLock::try_take(&path).unwrap().unwrap();
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn({
        let path = path.clone();
        move || {
            let lock = KernelLock::take_waiting(&path).unwrap();
            sender.send(()).unwrap();
            lock
        }
    });
    assert!(receiver.try_recv().is_err());
    drop(lock);
    receiver.recv().unwrap();
    let lock = waiter.join().unwrap();
    assert!(KernelLock::is_held(&path).unwrap());
    drop(lock);
}

#[test]
fn a_link_or_a_fifo_is_not_a_lock() {
    let (directory, path) = lock_file();
    let target = directory.path().join("target");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(KernelLock::try_take(&path).is_err());
    assert!(!target.exists());

    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(KernelLock::try_take(&fifo).is_err());
    assert!(KernelLock::is_held(&fifo).is_err());
}

#[test]
fn checking_a_lock_never_keeps_others_from_taking_it() {
    let (_directory, path) = lock_file();
    drop(KernelLock::try_take(&path).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    KernelLock::is_held(&path).unwrap();
                }
            });
        }
        for _ in 0..2000 {
            assert!(KernelLock::try_take(&path).unwrap().is_some());
        }
    });
}
