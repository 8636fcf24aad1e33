use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;

use nix::sys::stat::Mode;
use pretty_assertions::assert_eq;

use super::*;
use crate::database::with_suffix;
use crate::test_store::{TestStore, open_writer, picture_of};

/// Opens in another thread, so that a hang fails the test instead of blocking it.
fn open_soon(path: &Path) -> Result<ReadOnlyDatabase, OpenDatabaseError> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(ReadOnlyDatabase::open(&path)).ok());
    receiver.recv_timeout(Duration::from_secs(10)).expect("opening hangs")
}

fn refused_kind(path: &Path) -> &'static str {
    match open_soon(path) {
        Err(OpenDatabaseError::File(PlainFileError::NotPlain { kind, .. })) => kind,
        other => panic!("not refused as a special file: {other:?}"),
    }
}

fn mkfifo(path: &Path) {
    nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
}

#[test]
fn special_files_are_refused_without_opening_them() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    mkfifo(&at("fifo"));
    let _listener = UnixListener::bind(at("socket")).unwrap();
    let store = TestStore::new().close();
    std::os::unix::fs::symlink(store.path(), at("link")).unwrap();

    assert_eq!(refused_kind(&at("fifo")), "FIFO");
    assert_eq!(refused_kind(&at("socket")), "socket");
    assert_eq!(refused_kind(&at("link")), "symbolic link");
    assert_eq!(refused_kind(directory.path()), "directory");
    assert_eq!(refused_kind(Path::new("/dev/zero")), "device");
    assert_eq!(refused_kind(Path::new("/")), "directory");
}

#[test]
fn special_files_beside_the_database_are_refused_too() {
    for suffix in ["-wal", "-shm", "-journal"] {
        let store = TestStore::new().close();
        let sibling = with_suffix(&store.path(), suffix);
        mkfifo(&sibling);
        assert_eq!(refused_kind(&store.path()), "FIFO");
        fs::remove_file(&sibling).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &sibling).unwrap();
        assert_eq!(refused_kind(&store.path()), "symbolic link");
    }
}

#[test]
fn a_file_that_is_not_a_database_is_refused_and_stays_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let missing = open_soon(&path);
    assert!(
        matches!(missing, Err(OpenDatabaseError::File(PlainFileError::Missing { .. }))),
        "{missing:?}"
    );
    let missing = open_soon(&directory.path().join("no/such/store.db"));
    assert!(
        matches!(missing, Err(OpenDatabaseError::File(PlainFileError::Missing { .. }))),
        "{missing:?}"
    );

    fs::write(&path, b"").unwrap();
    assert!(matches!(open_soon(&path), Err(OpenDatabaseError::Empty)));
    let garbage: [&[u8]; 3] =
        [b"x", &[0xff; 9_000], b"SQLite format 3\0 and then nothing of the kind"];
    for bytes in garbage {
        fs::write(&path, bytes).unwrap();
        let before = picture_of(directory.path());
        let refused = open_soon(&path);
        assert!(matches!(refused, Err(OpenDatabaseError::NotADatabase)), "{refused:?}");
        assert_eq!(picture_of(directory.path()), before);
    }
}

#[test]
fn a_log_beside_an_empty_database_is_not_deleted() {
    // SQLite itself would delete such a log if it could write.
    let store = TestStore::new();
    store.put_meta();
    let killed = store.as_killed();
    fs::write(killed.path(), b"").unwrap();
    let before = picture_of(killed.directory.path());
    assert!(matches!(open_soon(&killed.path()), Err(OpenDatabaseError::Empty)));
    assert_eq!(picture_of(killed.directory.path()), before);
}

#[test]
fn a_log_that_a_killed_writer_left_is_read_and_stays_as_it_is() {
    let store = TestStore::new();
    store.put_meta();
    let killed = store.as_killed();
    for has_shm in [false, true] {
        if has_shm {
            let shm = with_suffix(&store.path(), "-shm");
            fs::copy(shm, with_suffix(&killed.path(), "-shm")).unwrap();
        }
        let before = picture_of(killed.directory.path());
        let database = ReadOnlyDatabase::open(&killed.path()).unwrap();
        assert_eq!(database.access, Access::Abandoned);
        // The row is only in the log.
        let count = |connection: &Connection| {
            connection.query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(database.read(count).unwrap(), 1);
        drop(database);
        assert_eq!(picture_of(killed.directory.path()), before);
    }
}

#[test]
fn a_log_with_a_live_writer_is_read_with_locks() {
    let store = TestStore::new();
    store.put_meta();
    let database = ReadOnlyDatabase::open(&store.path()).unwrap();
    assert_eq!(database.access, Access::Live);
}

#[test]
fn a_path_with_unusual_bytes_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a?mode=rwc#b%41 &\xff\xc3\xa9");
    let path = directory.path().join(odd).join(odd);
    fs::create_dir(path.parent().unwrap()).unwrap();
    let store = TestStore::new().close();
    fs::copy(store.path(), &path).unwrap();
    assert!(
        ReadOnlyDatabase::open(&path).unwrap().has_plain_table("meta", ["key", "value"]).unwrap()
    );
}

#[test]
fn a_parent_directory_may_be_a_link() {
    let store = TestStore::new().close();
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(store.directory.path(), &link).unwrap();
    ReadOnlyDatabase::open(&link.join("store.db")).unwrap();
}

#[test]
fn only_an_ordinary_table_with_stored_columns_counts_as_plain() {
    let cases = [
        ("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)", true),
        ("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB, later TEXT)", true),
        ("CREATE TABLE blobs (id TEXT PRIMARY KEY)", false),
        ("CREATE TABLE blobs (id TEXT PRIMARY KEY, data AS (zeroblob(1000000000)))", false),
        (
            "CREATE VIEW blobs AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) SELECT id, id AS data FROM n",
            false,
        ),
        ("CREATE VIRTUAL TABLE blobs USING fts5(id, data)", false),
        ("CREATE TABLE other (id, data)", false),
    ];
    for (sql, expected) in cases {
        let store = TestStore::new();
        store.writer.execute_batch(&format!("DROP TABLE blobs; {sql}")).unwrap();
        let closed = store.close();
        let database = ReadOnlyDatabase::open_strictly(&closed.path()).unwrap();
        assert_eq!(database.has_plain_table("blobs", ["id", "data"]).unwrap(), expected, "{sql}");
    }
}

#[test]
fn a_closed_database_that_is_written_to_again_is_noticed() {
    let store = TestStore::new().close();
    let database = ReadOnlyDatabase::open(&store.path()).unwrap();
    let count = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(database.read(count).unwrap(), 0);
    let writer = open_writer(&store.path());
    writer.execute("INSERT INTO meta VALUES ('0', '')", []).unwrap();
    assert!(matches!(database.read(count), Err(ReadDatabaseError::Changed)));
    // When it is opened again, the database has a live writer.
    let database = ReadOnlyDatabase::open(&store.path()).unwrap();
    assert_eq!(database.read(count).unwrap(), 1);
    assert_eq!(database.access, Access::Live);
}

#[test]
fn nothing_can_be_written_through_it() {
    let store = TestStore::new();
    store.put_meta();
    let killed = store.as_killed();
    let closed = TestStore::new().close();
    for path in [store.path(), killed.path(), closed.path()] {
        let database = ReadOnlyDatabase::open(&path).unwrap();
        for sql in
            ["DELETE FROM meta", "CREATE TABLE t (a)", "PRAGMA query_only = OFF; DELETE FROM meta"]
        {
            assert!(database.read(|connection| connection.execute_batch(sql)).is_err(), "{sql}");
        }
    }
}

#[test]
fn a_fingerprint_changes_with_the_log() {
    let store = TestStore::new();
    let before = DatabaseFingerprint::of(&store.path()).unwrap();
    assert_eq!(DatabaseFingerprint::of(&store.path()).unwrap(), before);
    store.put(b"x");
    assert!(DatabaseFingerprint::of(&store.path()).unwrap() != before);
}

#[test]
fn an_endless_query_is_interrupted_and_counts_as_damage() {
    let store = TestStore::new().close();
    let database = ReadOnlyDatabase::open_strictly(&store.path()).unwrap();
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i * 0) FROM n";
    let interrupted = database.read_within(Duration::from_millis(20), |connection| {
        connection.query_row(endless, [], |row| row.get::<_, i64>(0))
    });
    assert!(interrupted.unwrap_err().is_damage());
    // The next read has its own time limit.
    assert!(database.has_plain_table("meta", ["key", "value"]).unwrap());
}

#[test]
fn a_log_whose_index_cannot_be_made_is_read_from_a_copy() {
    let store = TestStore::new();
    store.put_meta();
    let killed = store.as_killed();
    let fingerprint = DatabaseFingerprint::of(&killed.path()).unwrap();
    let before = picture_of(killed.directory.path());
    let path = killed.path();
    let opening = Opening { path: &path, tolerance: Tolerance::Salvage, fingerprint: &fingerprint };
    let database = opening.without_shm().unwrap();
    assert_eq!((database.access, database.shortcoming()), (Access::Copied, None));
    let n_rows = database.read(|connection| {
        connection.query_row("SELECT count(*) FROM meta", [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(n_rows.unwrap(), 1);
    assert_eq!(picture_of(killed.directory.path()), before);
}

/// A page of a table's tree whose four hundred children are all the same page.
fn interior_page(child: u32) -> Vec<u8> {
    const N_CELLS: u16 = 400;
    let mut page = vec![0; 4096];
    page[0] = 0x05;
    page[3..5].copy_from_slice(&N_CELLS.to_be_bytes());
    page[5..7].copy_from_slice(&(4096 - 5 * N_CELLS).to_be_bytes());
    page[8..12].copy_from_slice(&child.to_be_bytes());
    for cell in 0..N_CELLS {
        let start = 4096 - 5 * (cell + 1);
        let pointer = usize::from(12 + 2 * cell);
        page[pointer..pointer + 2].copy_from_slice(&start.to_be_bytes());
        page[usize::from(start)..usize::from(start) + 4].copy_from_slice(&child.to_be_bytes());
        page[usize::from(start) + 4] = 1;
    }
    page
}

#[test]
fn counting_is_interrupted_in_a_small_file_with_endless_rows() {
    let store = TestStore::new();
    store.put(b"a row");
    let root: u32 = store
        .writer
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'blobs'", [], |row| row.get(0))
        .unwrap();
    let closed = store.close();
    let mut file = fs::read(closed.path()).unwrap();
    let root_start = (root as usize - 1) * 4096;
    let mut last: u32 = (file.len() / 4096).try_into().unwrap();
    // Moves the leaf away, and builds a tower of pages that leads to it.
    let leaf = file[root_start..root_start + 4096].to_vec();
    file.extend(leaf);
    last += 1;
    for _ in 0..6 {
        file.extend(interior_page(last));
        last += 1;
    }
    file[root_start..root_start + 4096].copy_from_slice(&interior_page(last));
    file[28..32].copy_from_slice(&last.to_be_bytes());
    fs::write(closed.path(), &file).unwrap();
    let count = |database: &ReadOnlyDatabase| {
        database.read_within(Duration::from_millis(50), |connection| {
            let sql = "SELECT count(*), sum(octet_length(data)) FROM blobs";
            connection.query_row(sql, [], |row| row.get::<_, i64>(0))
        })
    };
    // The read takes too long, but that does not prove damage: the disk may be slow.
    let err = count(&ReadOnlyDatabase::open(&closed.path()).unwrap()).unwrap_err();
    let ReadDatabaseError::Sqlite(err) = err else { panic!("{err:?}") };
    assert_eq!(err.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
    // Salvaging returns each row once.
    let fingerprint = DatabaseFingerprint::of(&closed.path()).unwrap();
    salvage::note(&fs::canonicalize(closed.path()).unwrap(), &fingerprint);
    let left = ReadOnlyDatabase::open(&closed.path()).unwrap();
    assert!(left.is_salvaged());
    assert_eq!(count(&left).unwrap(), 1);
}
