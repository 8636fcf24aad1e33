use std::os::unix::fs::symlink;

use cursor_home::WorkspacePath;
use pretty_assertions::assert_eq;
use run_journal::StateRoot;

use super::*;

const SESSION: &str = "6f1d0000-0000-4000-8000-000000000001";
const CHILD: &str = "6f1d0000-0000-4000-8000-000000000002";

struct Place {
    directory: tempfile::TempDir,
    bucket: SessionBucket,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let bucket = bucket_in(directory.path());
    bucket.prepare().unwrap();
    Place { directory, bucket }
}

fn bucket_in(directory: &Path) -> SessionBucket {
    let state = StateRoot::new(directory.join("state"));
    let places = SessionPlaces::new(
        &state,
        &directory.join("host"),
        &WorkspacePath::new(Path::new("/tmp/work")).unwrap(),
        SESSION.parse().unwrap(),
    );
    SessionBucket::new(&directory.join("session"), places)
}

fn name(hash: BucketHash) -> String {
    WorkspacePath::new(Path::new("/tmp/work")).unwrap().bucket_by(hash)
}

impl Place {
    fn on_host(&self, below: &str) -> PathBuf {
        self.users(BucketHash::Md5, below)
    }

    fn users(&self, hash: BucketHash, below: &str) -> PathBuf {
        self.directory.path().join("host/chats").join(name(hash)).join(below)
    }

    fn ours(&self, hash: BucketHash, below: &str) -> PathBuf {
        self.directory.path().join("state/chats").join(name(hash)).join(below)
    }

    /// The same session's next run.
    fn next(&mut self) {
        self.bucket = bucket_in(self.directory.path());
        self.bucket.prepare().unwrap();
    }

    /// What the sandbox shows under the name that most agents use.
    fn shown(&self) -> Vec<PathBuf> {
        self.bucket.views().swap_remove(0).1
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
    assert_eq!(place.shown(), [place.on_host(SESSION)]);
    place.make(&format!("{CHILD}/store.db"), "child");
    place.make(&format!("{CHILD}/store.db-wal"), "log");
    place.bucket.settle();
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db")).unwrap(), "child");
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db-wal")).unwrap(), "log");
    assert!(is_empty(&place.bucket.private().join(CHILD)));
    assert_eq!(place.shown(), [place.on_host(SESSION), place.on_host(CHILD)]);

    // The user removed it, so there is nothing to show.
    fs::remove_dir_all(place.on_host(CHILD)).unwrap();
    assert_eq!(place.shown(), [place.on_host(SESSION)]);
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
    copy(&files, &made, &place.on_host(CHILD)).unwrap();
    assert_eq!(fs::read_to_string(place.on_host(CHILD).join("store.db")).unwrap(), "child");
    // The second time, its name already exists, and no temporary file is left.
    let again = copy(&files, &made, &place.on_host(CHILD));
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
    assert_eq!(place.shown().len(), 1 + MOST_CHILDREN);
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
    assert_eq!(place.shown(), [place.on_host(SESSION)]);
}

#[test]
fn a_session_under_a_name_that_the_user_does_not_have_stays_in_caretakers_chats() {
    let sha256 = BucketHash::Sha256;
    let mut place = place();
    let views = place.bucket.views();
    let shown = |hash, at: PathBuf| (name(hash), vec![at]);
    let md5 = shown(BucketHash::Md5, place.on_host(SESSION));
    assert_eq!(views, [md5, shown(sha256, place.ours(sha256, SESSION))]);
    assert_eq!(place.bucket.drift(), None);

    fs::write(place.ours(sha256, SESSION).join("store.db"), "").unwrap();
    place.make(&format!("{CHILD}/store.db"), "child");
    place.bucket.settle();
    assert!(!place.directory.path().join("host/chats").read_dir().unwrap().any(|_| true));
    assert_eq!(place.bucket.store_db(), place.ours(sha256, SESSION).join("store.db"));
    let directory = place.ours(sha256, SESSION).into();
    assert_eq!(
        place.bucket.drift(),
        Some(RunEvent::BucketDrift { bucket: name(sha256), directory })
    );

    // The next agent sees the session and its child under every name.
    place.next();
    let both = vec![place.ours(sha256, SESSION), place.ours(sha256, CHILD)];
    assert_eq!(place.bucket.views(), [(name(BucketHash::Md5), both.clone()), (name(sha256), both)]);
    place.bucket.settle();

    // Now the user's own agent uses that name too, and has a child's name for a session of its own.
    fs::create_dir_all(place.users(sha256, CHILD)).unwrap();
    place.bucket.settle();
    assert_eq!(place.bucket.drift(), None);
    assert_eq!(place.bucket.store_db(), place.users(sha256, SESSION).join("store.db"));
    place.next();
    assert_eq!(place.shown(), [place.users(sha256, SESSION)]);
    assert!(place.ours(sha256, CHILD).join("store.db").exists());
}

#[test]
fn an_agent_on_the_host_may_rename_the_bucket_while_the_run_is_on() {
    let mut place = place();
    fs::write(place.on_host(SESSION).join("store.db"), "").unwrap();
    place.make(&format!("{CHILD}/store.db"), "child");
    place.bucket.settle();
    place.next();
    let renamed = place.users(BucketHash::Sha256, "");
    fs::rename(place.on_host(""), &renamed).unwrap();
    place.bucket.settle();
    assert_eq!(place.bucket.store_db(), renamed.join(SESSION).join("store.db"));
    assert_eq!(place.bucket.drift(), None);
    assert!(!place.on_host("").exists());
    place.next();
    assert_eq!(place.shown(), [renamed.join(SESSION), renamed.join(CHILD)]);
}

#[test]
fn a_child_that_an_earlier_version_recorded_is_shown() {
    let place = place();
    fs::create_dir(place.on_host(CHILD)).unwrap();
    fs::create_dir(place.bucket.private().join(CHILD)).unwrap();
    fs::write(&place.bucket.record, format!("{CHILD}\n")).unwrap();
    assert_eq!(place.shown(), [place.on_host(SESSION), place.on_host(CHILD)]);
}
