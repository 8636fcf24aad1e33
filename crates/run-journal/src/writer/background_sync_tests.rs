use std::os::fd::OwnedFd;

use super::*;

#[test]
fn writes_become_durable_even_if_nobody_waits() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let sync = BackgroundSync::start(file, Vec::new()).unwrap();
    for _ in 0..2 {
        sync.wrote();
        let mut state = sync.shared.lock();
        while state.n_synced < state.n_written {
            state = sync.shared.wait(state);
        }
    }
    sync.check().unwrap();
}

#[test]
fn a_failure_is_remembered_for_good() {
    // A pipe cannot be synced.
    let (_reader, writer) = std::io::pipe().unwrap();
    let file = Arc::new(File::from(OwnedFd::from(writer)));
    let sync = BackgroundSync::start(file, Vec::new()).unwrap();
    sync.check().unwrap();
    for _ in 0..2 {
        assert_eq!(sync.wait().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(sync.check().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        sync.wrote();
    }
}

#[test]
fn files_and_directories_that_cannot_be_synced_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let also = vec![directory.path().to_owned(), directory.path().join("missing")];
    let sync = BackgroundSync::start(Arc::new(tempfile::tempfile().unwrap()), also).unwrap();
    sync.wait().unwrap();
}
