use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;

const SESSION: &str = "6f1d0000-0000-4000-8000-000000000001";
const CHILD: &str = "6f1d0000-0000-4000-8000-000000000002";

struct Place {
    directory: tempfile::TempDir,
    bucket: SessionBucket,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let on_host = directory.path().join("host/chats/bucket");
    let bucket = SessionBucket::new(&directory.path().join("session"), on_host, SESSION);
    bucket.prepare().unwrap();
    Place { directory, bucket }
}

impl Place {
    fn on_host(&self, below: &str) -> PathBuf {
        self.directory.path().join("host/chats/bucket").join(below)
    }

    /// Writes a file, as an agent would.
    fn make(&self, below: &str, content: &str) {
        let path = self.bucket.private().join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

#[test]
fn a_session_that_was_never_written_to_leaves_nothing_in_the_users_bucket() {
    let place = place();
    assert!(place.on_host(SESSION).is_dir());
    place.bucket.settle();
    assert!(!place.on_host("").exists());

    let place = self::place();
    fs::create_dir(place.on_host("another")).unwrap();
    fs::write(place.on_host(SESSION).join("store.db"), "").unwrap();
    place.bucket.settle();
    assert!(place.on_host(SESSION).is_dir() && place.on_host("another").is_dir());
}

#[test]
fn a_sub_agent_is_moved_to_the_users_bucket_and_shown_to_the_next_run() {
    let place = place();
    fs::write(place.on_host(SESSION).join("store.db"), "").unwrap();
    assert_eq!(place.bucket.shown(), [place.on_host(SESSION)]);
    place.make(&format!("{CHILD}/store.db"), "child");
    place.make(&format!("{CHILD}/store.db-wal"), "log");
    place.bucket.settle();
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db")).unwrap(), "child");
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db-wal")).unwrap(), "log");
    assert!(is_empty(&place.bucket.private().join(CHILD)));
    assert_eq!(place.bucket.shown(), [place.on_host(SESSION), place.on_host(CHILD)]);

    // The user removed it, so there is nothing to show.
    fs::remove_dir_all(place.on_host(CHILD)).unwrap();
    assert_eq!(place.bucket.shown(), [place.on_host(SESSION)]);
}

#[test]
fn only_plain_stores_are_moved_and_they_replace_nothing() {
    let place = place();
    fs::create_dir(place.on_host("taken")).unwrap();
    fs::write(place.on_host("taken").join("store.db"), "the user's").unwrap();
    place.make("taken/store.db", "the agent's");
    place.make("nested/deep/store.db", "");
    place.make("a plain file", "");
    place.make(".hidden/store.db", "");
    place.make("with\nnewline/store.db", "");
    place.make("linked/store.db", "");
    symlink("/etc/passwd", place.bucket.private().join("linked/meta.json")).unwrap();
    symlink("/etc", place.bucket.private().join("link")).unwrap();
    place.bucket.settle();
    let taken = fs::read_to_string(place.on_host("taken").join("store.db")).unwrap();
    assert_eq!(taken, "the user's");
    assert_eq!(names_in(&place.on_host("")), ["taken"]);
}

#[test]
fn a_store_can_be_copied_to_another_file_system() {
    let place = place();
    place.make(&format!("{CHILD}/store.db"), "child");
    let made = place.bucket.private().join(CHILD);
    let files = plain_files_in(&made).unwrap().unwrap();
    place.bucket.copy(&files, &made, &place.on_host(CHILD)).unwrap();
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db")).unwrap(), "child");
    // The second time, its name already exists, and no temporary file is left.
    let again = place.bucket.copy(&files, &made, &place.on_host(CHILD));
    assert!(matches!(again, Err(NotAdopted::Taken)));
    let mut names = names_in(&place.on_host(""));
    names.sort();
    assert_eq!(names, [SESSION, CHILD]);
}

#[test]
fn no_more_than_a_few_sub_agents_are_shown() {
    let place = place();
    for number in 0..40 {
        place.make(&format!("child-{number}/store.db"), "child");
    }
    place.bucket.settle();
    assert_eq!(place.bucket.shown().len(), 1 + MOST_CHILDREN);
}

#[test]
fn a_directory_named_after_another_session_does_not_show_that_session() {
    let place = place();
    let another = place.on_host(CHILD);
    fs::create_dir(&another).unwrap();
    fs::write(another.join("store.db"), "the user's").unwrap();
    // An agent may know the name.
    fs::create_dir(place.bucket.private().join(CHILD)).unwrap();
    place.bucket.settle();
    assert_eq!(place.bucket.shown(), [place.on_host(SESSION)]);
}
