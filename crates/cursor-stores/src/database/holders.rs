//! Finds out which processes have a database open for writing. A row that says "running" is true only while a process
//! is there to finish the work.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::fingerprint::with_suffix;
use crate::plain_file;

/// The first byte that SQLite locks in a database file. A connection with a write-ahead log holds a lock there while it
/// is open.
const PENDING_BYTE: u64 = 0x4000_0000;
const MAX_LOCKS_BYTES: u64 = 4 * 1024 * 1024;
/// If locks cannot be seen, a change this recent counts as a sign of life. Longer than most tool calls.
const STILL_WARM: Duration = Duration::from_secs(300);

/// True if a process has the database open for writing. If the system cannot tell, true if the database changed
/// recently.
pub(crate) fn is_open_for_writing(database: &Path) -> bool {
    let Ok(metadata) = plain_file::inspect(database) else { return false };
    match plain_file::read_at_most(Path::new("/proc/locks"), MAX_LOCKS_BYTES) {
        Ok(locks) => {
            // A process loses its locks on a file when it closes any descriptor of that file. So check our own
            // descriptors instead.
            let own = std::process::id();
            holders(&String::from_utf8_lossy(&locks), metadata.ino())
                .filter(|pid| *pid != own)
                .chain([own])
                .any(|pid| may_write(pid, metadata.ino()))
        }
        Err(_) => changed_recently(database),
    }
}

/// True if a file, or its log, changed in the last few minutes.
pub(crate) fn changed_recently(path: &Path) -> bool {
    [path, &with_suffix(path, "-wal")].into_iter().any(|file| {
        plain_file::inspect(file)
            .ok()
            .and_then(|metadata| metadata.modified().ok())
            .and_then(|modified| SystemTime::now().duration_since(modified).ok())
            .is_some_and(|age| age < STILL_WARM)
    })
}

/// Reads `/proc/locks`. Returns the processes that hold one of SQLite's locks on the file with this inode.
///
/// Does not compare the device: overlay file systems show a different device there than `stat` does.
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = u32> + '_ {
    locks.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, _, pid, file, start, _] = words.as_slice() else { return None };
        let is_this_file = file.rsplit(':').next()?.parse() == Ok(inode);
        let is_sqlite = start.parse::<u64>().is_ok_and(|start| start >= PENDING_BYTE);
        (is_this_file && is_sqlite).then(|| pid.parse().ok()).flatten()
    })
}

/// Readers hold the same lock. A process counts as a reader only if we can see that it has no descriptor for writing.
fn may_write(pid: u32, inode: u64) -> bool {
    let descriptors = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    descriptors
        .flatten()
        .filter(|entry| std::fs::metadata(entry.path()).is_ok_and(|file| file.ino() == inode))
        .any(|entry| {
            let name = entry.file_name();
            match std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", name.to_string_lossy()))
            {
                Ok(facts) => is_for_writing(&facts, inode),
                // `NotFound`: the process closed it in the meantime.
                Err(error) => error.kind() != ErrorKind::NotFound,
            }
        })
}

/// True if a descriptor can write to the file with this inode. By now the descriptor may refer to another file; on
/// newer kernels, the inode shows this.
fn is_for_writing(descriptor_facts: &str, inode: u64) -> bool {
    let fact = |name: &str| {
        descriptor_facts.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    };
    let is_another =
        fact("ino:").and_then(|text| text.parse().ok()).is_some_and(|it: u64| it != inode);
    let flags = fact("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    !is_another && flags.is_none_or(|flags| flags & 0o3 != 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  READ 30498 fe:00:10010727 128 128\n\
                         2: POSIX  ADVISORY  READ 30498 fe:00:10010660 1073741826 1073742335\n\
                         2: -> POSIX  ADVISORY  WRITE 30499 fe:00:10010660 1073741826 1073742335\n\
                         3: FLOCK  ADVISORY  WRITE 30236 fe:00:10010660 0 EOF\n\
                         4: POSIX  ADVISORY  WRITE 77 fe:00:10010660 0 100\n\ngarbage";

    #[test]
    fn only_sqlites_own_locks_on_this_file_count() {
        assert_eq!(holders(LOCKS, 10_010_660).collect::<Vec<_>>(), [30498]);
        assert_eq!(holders(LOCKS, 10_010_727).count(), 0);
    }

    #[test]
    fn a_descriptor_says_whether_it_can_write() {
        assert!(!is_for_writing("pos:\t0\nflags:\t0100000\n", 7));
        assert!(is_for_writing("pos:\t0\nflags:\t0100002\n", 7));
        assert!(is_for_writing("pos:\t0\nflags:\t0100002\nmnt_id:\t9\nino:\t7\n", 7));
        assert!(!is_for_writing("pos:\t0\nflags:\t0100002\nmnt_id:\t9\nino:\t8\n", 7));
        assert!(is_for_writing("nothing", 7));
    }

    #[test]
    fn a_store_that_no_process_has_open_is_not_held() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let file = std::fs::File::create(&path).unwrap();
        assert!(is_open_for_writing(&path), "this process has it open");
        drop(file);
        assert!(!is_open_for_writing(&path));
        assert!(changed_recently(&path));
        assert!(!is_open_for_writing(Path::new("/nowhere/at/all")));
    }
}
