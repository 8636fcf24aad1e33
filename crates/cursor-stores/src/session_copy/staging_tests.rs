use pretty_assertions::assert_eq;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_placed_session_is_complete_and_leaves_nothing_else() {
    let chats = tempfile::tempdir().unwrap();
    let staging = Staging::inside(chats.path()).unwrap();
    staging.write_file("meta.json", b"{}").unwrap();
    let target = chats.path().join("bucket/session");
    staging.place(&target).unwrap();
    assert_eq!(names(chats.path()), ["bucket"]);
    assert_eq!(names(&target), ["meta.json"]);
}

#[test]
fn placing_never_replaces_a_session() {
    let chats = tempfile::tempdir().unwrap();
    let target = chats.path().join("bucket/session");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("store.db"), "old").unwrap();
    let staging = Staging::inside(chats.path()).unwrap();
    staging.write_file("store.db", b"new").unwrap();
    staging.place(&target).unwrap_err();
    assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "old");
    assert_eq!(names(chats.path()), ["bucket"]);
}

#[test]
fn two_sessions_are_exchanged_and_back() {
    let chats = tempfile::tempdir().unwrap();
    let target = chats.path().join("bucket/session");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("store.db"), "old").unwrap();
    let staging = Staging::inside(chats.path()).unwrap();
    staging.write_file("store.db", b"new").unwrap();
    staging.exchange(&target).unwrap();
    assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "new");
    assert_eq!(fs::read_to_string(staging.database()).unwrap(), "old");
    staging.exchange(&target).unwrap();
    assert_eq!(fs::read_to_string(target.join("store.db")).unwrap(), "old");
}

#[test]
fn only_a_staging_directory_without_a_process_is_left_over() {
    let chats = tempfile::tempdir().unwrap();
    let staging = Staging::inside(chats.path()).unwrap();
    staging.write_file("store.db", b"12345").unwrap();
    assert_eq!(leftovers(chats.path()), []);
    // As after a kill: the files stay, and the lock is gone.
    let Staging { directory, _lock: lock } = staging;
    let path = directory.keep();
    drop(lock);
    assert_eq!(leftovers(chats.path()), [Leftover { path, n_bytes: 5 }]);
}
