use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::BlobEncryptionKey;
use crate::chat::schema::ConversationStateStructure as Root;
use crate::test_store::TestStore;

fn store_with_two_roots() -> (TestStore, BlobId, BlobId) {
    let mut store = TestStore::new();
    store.meta.set("aKeyOfTomorrow", json!({"kept": true}));
    store.meta.set_encryption_key(BlobEncryptionKey::new("0badc0de".to_owned()));
    let message = store.put(br#"{"role":"user","content":"remember"}"#);
    let old = store
        .put_root(&Root { root_prompt_messages_json: vec![message.to_vec()], ..Root::default() });
    let new = store.put_root(&Root { mode: Some(1), ..Root::default() });
    (store, old, new)
}

#[test]
fn the_pointer_is_put_back_and_nothing_else_changes() {
    let (store, old, new) = store_with_two_roots();
    let before = store.meta.clone();
    let store = store.close();
    assert_eq!(put_back(&store.path(), old).unwrap(), PutBack { from: Some(new), to: old });
    let read = ChatStore::open_read_only(&store.path()).unwrap();
    let mut expected = before;
    expected.set_latest_root(old);
    assert_eq!(read.meta().unwrap().unwrap(), expected);
    assert_eq!(read.inventory().unwrap().0.len(), 3);
    drop(read);
    let (root, ancestry) = latest_ancestry(&store.path()).unwrap();
    assert_eq!((root, ancestry.unwrap().n_messages()), (Some(old), 1));
}

#[test]
fn put_back_works_on_a_store_with_a_log() {
    let (store, old, new) = store_with_two_roots();
    let killed = store.as_killed();
    assert_eq!(put_back(&killed.path(), old).unwrap(), PutBack { from: Some(new), to: old });
    assert_eq!(latest_ancestry(&killed.path()).unwrap().0, Some(old));
}

#[test]
fn put_back_obeys_no_trigger_in_the_store() {
    let (store, old, new) = store_with_two_roots();
    let store = store.close();
    let writer = crate::test_store::open_writer(&store.path());
    let trigger = "CREATE TRIGGER evil AFTER UPDATE ON meta BEGIN DELETE FROM blobs; END";
    writer.execute_batch(trigger).unwrap();
    writer.close().unwrap();
    assert_eq!(put_back(&store.path(), old).unwrap(), PutBack { from: Some(new), to: old });
    let read = ChatStore::open_read_only(&store.path()).unwrap();
    assert_eq!(read.inventory().unwrap().0.len(), 3);
}

#[test]
fn put_back_refuses_a_fifo_beside_the_store_without_waiting() {
    for suffix in ["-journal", "-wal", "-shm"] {
        let (store, old, _) = store_with_two_roots();
        let store = store.close();
        let fifo = crate::database::with_suffix(&store.path(), suffix);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = put_back(&store.path(), old);
        assert!(matches!(refused, Err(RootPointerError::File(_))), "{suffix}: {refused:?}");
    }
}

#[test]
fn put_back_refuses_a_missing_root() {
    let (store, _, new) = store_with_two_roots();
    let store = store.close();
    let gone = BlobId::of(b"gone");
    assert!(matches!(put_back(&store.path(), gone), Err(RootPointerError::RootGone(_))));
    assert_eq!(latest_ancestry(&store.path()).unwrap().0, Some(new));
    let link = store.directory.path().join("link");
    std::os::unix::fs::symlink(store.path(), &link).unwrap();
    assert!(matches!(put_back(&link, new), Err(RootPointerError::File(_))));
}
