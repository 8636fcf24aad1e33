use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::chat::{LatestRoot, check_store};
use crate::test_store::{TestStore, picture_of};

fn read_everything(path: &Path) -> (LatestRoot, Vec<(BlobId, Vec<u8>)>) {
    let store = ChatStore::open_read_only(path).unwrap();
    let (stored, _) = store.inventory().unwrap();
    let blobs = stored.into_iter().map(|blob| {
        let data = store.blob(blob.id).unwrap().unwrap();
        assert_eq!(blob.n_bytes, data.len() as u64);
        (blob.id, data)
    });
    let blobs = blobs.collect();
    check_store(&store).unwrap();
    (store.meta().unwrap().unwrap().latest_root(), blobs)
}

/// Has three blobs, one of them empty. The last one is the root.
fn small_store() -> TestStore {
    let mut store = TestStore::new();
    store.put(b"one");
    store.put(b"");
    let root = store.put(b"three");
    store.meta.set_latest_root(root);
    store.put_meta();
    store
}

fn assert_small_store(path: &Path) {
    let (root, blobs) = read_everything(path);
    let data: [&[u8]; 3] = [b"one", b"", b"three"];
    assert_eq!(root, LatestRoot::Blob(BlobId::of(b"three")));
    assert_eq!(blobs, data.map(|data| (BlobId::of(data), data.to_vec())));
}

#[test]
fn reading_a_closed_store_changes_nothing_at_all() {
    let store = small_store().close();
    let before = picture_of(store.directory.path());
    assert_eq!(before.keys().collect::<Vec<_>>(), ["store.db"]);
    assert_small_store(&store.path());
    assert_eq!(picture_of(store.directory.path()), before);
}

#[test]
fn an_empty_log_left_behind_is_not_touched_either() {
    let store = small_store().close();
    fs::write(store.directory.path().join("store.db-wal"), b"").unwrap();
    let before = picture_of(store.directory.path());
    assert_small_store(&store.path());
    assert_eq!(picture_of(store.directory.path()), before);
}

#[test]
fn a_closed_store_in_a_read_only_directory_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let store = small_store().close();
    fs::set_permissions(store.directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
    assert_small_store(&store.path());
    fs::set_permissions(store.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn reading_a_live_store_changes_at_most_its_shared_memory() {
    let store = small_store();
    let without_shm = |directory: &Path| {
        let mut picture = picture_of(directory);
        picture.remove("store.db-shm");
        picture
    };
    let before = without_shm(store.directory.path());
    assert!(before["store.db-wal"].n_bytes > 0);
    assert_small_store(&store.path());
    assert_eq!(without_shm(store.directory.path()), before);
    // The reader neither disturbs the writer nor shortens its log.
    store.put(b"four");
    assert_eq!(read_everything(&store.path()).1.len(), 4);
}

#[test]
fn a_killed_writers_store_is_read_though_its_main_file_has_no_tables() {
    let killed = small_store().as_killed();
    let before = picture_of(killed.directory.path());
    assert_eq!(before["store.db"].n_bytes, 4096);
    assert_small_store(&killed.path());
    let mut after = picture_of(killed.directory.path());
    after.remove("store.db-shm");
    assert_eq!(after, before);
}

#[test]
fn a_main_file_copied_without_its_log_is_not_a_chat() {
    let killed = small_store().as_killed();
    fs::remove_file(killed.directory.path().join("store.db-wal")).unwrap();
    let refused = ChatStore::open_read_only(&killed.path());
    assert!(matches!(refused, Err(ChatStoreError::NotAChat { table: "meta" })), "{refused:?}");
}

#[test]
fn meta_and_blobs_are_from_the_same_moment() {
    let mut store = small_store();
    let reader = ChatStore::open_read_only(&store.path()).unwrap();
    let newer = store.put(b"newer");
    store.meta.set_latest_root(newer);
    store.put_meta();
    assert_eq!(
        reader.meta().unwrap().unwrap().latest_root(),
        LatestRoot::Blob(BlobId::of(b"three"))
    );
    assert_eq!(reader.by_index(newer).unwrap(), Fetched::Missing);
    assert_eq!(reader.inventory().unwrap().0.len(), 3);
    let reader = ChatStore::open_read_only(&store.path()).unwrap();
    assert_eq!(reader.meta().unwrap().unwrap().latest_root(), LatestRoot::Blob(newer));
}

#[test]
fn a_meta_row_is_read_in_every_form_it_may_have() {
    let store = TestStore::new();
    let json = json!({"agentId": "a"}).to_string();
    let read = || ChatStore::open_read_only(&store.path()).unwrap().meta();
    assert!(read().unwrap().is_none());
    store.put_meta_value(hex::encode(&json));
    assert_eq!(read().unwrap().unwrap().agent_id(), Some("a"));
    store.put_meta_value(&json);
    assert_eq!(read().unwrap().unwrap().agent_id(), Some("a"));
    store.put_meta_value(json.as_bytes());
    assert_eq!(read().unwrap().unwrap().agent_id(), Some("a"));
    store.put_meta_value(rusqlite::types::Null);
    assert!(read().unwrap().is_none());
    store.put_meta_value("no hex");
    assert!(matches!(read(), Err(ChatStoreError::Meta(ReadChatMetaError::NotHex))));
}

#[test]
fn a_blob_too_large_to_hold_is_not_loaded() {
    let store = TestStore::new();
    let id = BlobId::of(b"huge");
    let sql = "INSERT INTO blobs VALUES (?1, zeroblob(?2))";
    store.writer.execute(sql, (id.to_string(), MAX_BLOB_BYTES + 1)).unwrap();
    let reader = ChatStore::open_read_only(&store.path()).unwrap();
    let bytes = MAX_BLOB_BYTES + 1;
    assert_eq!(reader.by_index(id).unwrap(), Fetched::TooLarge { bytes });
}

#[test]
fn rows_that_are_not_blobs_are_skipped() {
    let store = small_store();
    let null = BlobId::of(b"null");
    store
        .writer
        .execute("INSERT INTO blobs VALUES ('not hex', x'00'), (x'ff', x'00'), (NULL, x'00')", [])
        .unwrap();
    store.writer.execute("INSERT INTO blobs VALUES (?1, NULL)", [null.to_string()]).unwrap();
    let reader = ChatStore::open_read_only(&store.path()).unwrap();
    assert_eq!(reader.inventory().unwrap().0.len(), 3);
    assert_eq!(reader.by_index(null).unwrap(), Fetched::Missing);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_damage_to_the_file_makes_reading_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let closed = small_store().close();
        let mut bytes = fs::read(closed.path()).unwrap();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        fs::write(closed.path(), &bytes).unwrap();
        if let Ok(store) = ChatStore::open_read_only(&closed.path()) {
            check_store(&store).ok();
            for blob in store.inventory().into_iter().flat_map(|(blobs, _)| blobs) {
                store.blob(blob.id).ok();
            }
        }
        prop_assert_eq!(fs::read(closed.path()).unwrap(), bytes);
    }
}
