//! Checks whether a process has a store open for writing. The kernel grants a read lease only if no process has.
//!
//! The alternative is a scan of all processes. When many runs end together, each shim would scan all the others. No
//! safe crate offers leases.

#![expect(unsafe_code, reason = "leases, which no safe crate offers")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use ground::plain_file;
use nix::libc;

/// `F_SETSIG` from linux/fcntl.h, which the crate lacks.
const F_SETSIG: libc::c_int = 10;

/// True if certainly no process in any namespace has the store or its log open for writing. False if one has, or if the
/// kernel cannot tell.
///
/// Call it only while this process has no connection to the store, because closing the file drops SQLite's locks.
pub(crate) fn has_no_writer(store_db: &Path) -> bool {
    let log = store_db.with_file_name("store.db-wal");
    [store_db, &log].into_iter().all(|path| match plain_file::open(path) {
        Ok(file) => grants_lease(&file),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    })
}

/// Takes a lease and gives it back. A process that opens the file for writing in between waits until then.
fn grants_lease(file: &File) -> bool {
    let fd = file.as_raw_fd();
    let control = |what: libc::c_int, value: libc::c_int| {
        // SAFETY: all of these take a number and no pointer, and the descriptor is open for as long as the file is.
        unsafe { libc::fcntl(fd, what, value) == 0 }
    };
    // The kernel sends a signal when another process waits. The default signal would kill the shim; the shim ignores
    // SIGURG.
    let is_granted = control(F_SETSIG, libc::SIGURG) && control(libc::F_SETLEASE, libc::F_RDLCK);
    if is_granted {
        control(libc::F_SETLEASE, libc::F_UNLCK);
    }
    is_granted
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_store_has_no_writer_until_it_or_its_log_is_open_for_writing() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.db");
        assert!(has_no_writer(&store), "there is none");
        std::fs::write(&store, "x").unwrap();
        std::fs::write(store.with_file_name("store.db-wal"), "x").unwrap();
        assert!(has_no_writer(&store));
        for name in ["store.db", "store.db-wal"] {
            let path = store.with_file_name(name);
            let reader = File::open(&path).unwrap();
            assert!(has_no_writer(&store), "{name} is read");
            drop(reader);
            let writer = OpenOptions::new().append(true).open(&path).unwrap();
            assert!(!has_no_writer(&store), "{name} is written");
            drop(writer);
            assert!(has_no_writer(&store));
        }
    }

    #[test]
    fn a_link_never_counts_as_free_of_writers() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.db");
        std::os::unix::fs::symlink("/etc/hostname", &store).unwrap();
        assert!(!has_no_writer(&store));
    }
}
