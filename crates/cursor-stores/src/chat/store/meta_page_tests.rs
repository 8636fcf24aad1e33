use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_store::{TestStore, picture_of};

#[test]
fn the_page_says_what_sqlite_says() {
    let mut store = TestStore::new();
    store.put(b"a blob");
    store.meta.set_name("Ein schöner Name");
    store.put_meta();
    let expected = store.meta.clone();
    let closed = store.close();
    let before = picture_of(closed.directory.path());
    assert_eq!(read_meta_page(&closed.path()), Some(expected));
    assert_eq!(picture_of(closed.directory.path()), before);
}

#[test]
fn a_row_in_other_forms_is_read_too() {
    let json = json!({"agentId": "a"}).to_string();
    for value in [
        rusqlite::types::Value::Text(json.clone()),
        rusqlite::types::Value::Blob(json.into_bytes()),
    ] {
        let store = TestStore::new();
        store.put_meta_value(value);
        assert_eq!(read_meta_page(&store.close().path()).unwrap().agent_id(), Some("a"));
    }
}

#[test]
fn an_unusual_file_is_left_to_sqlite() {
    let mut long = TestStore::new();
    long.meta.set_name(&"long ".repeat(1_000));
    long.put_meta();
    assert_eq!(read_meta_page(&long.close().path()), None);
    assert_eq!(read_meta_page(&TestStore::new().close().path()), None);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    assert_eq!(read_meta_page(&path), None);
    std::fs::write(&path, [0x0d; 8192]).unwrap();
    assert_eq!(read_meta_page(&path), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_damage_to_a_page_makes_reading_panic(damage in prop::collection::vec((0..4096_usize, any::<u8>()), 1..20)) {
        let store = TestStore::new();
        store.put_meta();
        let closed = store.close();
        let mut bytes = std::fs::read(closed.path()).unwrap();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        std::fs::write(closed.path(), bytes).unwrap();
        read_meta_page(&closed.path());
    }
}
