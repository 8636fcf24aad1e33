//! The meta row of a closed store, read from its page: a list of old chats has thousands of them.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::database_page::{PAGE, local_rows, table_page};
use super::meta::ChatMeta;
use crate::plain_file;
use crate::record_format::{Value, record};

const META: &str = "meta";

/// Reads the meta row of a database that has no log. `None` if anything about the file is out of the ordinary: then
/// only SQLite can tell.
pub(super) fn read_meta_page(path: &Path) -> Option<ChatMeta> {
    let mut file = plain_file::open(path).ok()?;
    let before = file.metadata().ok()?;
    let mut page = vec![0; PAGE];
    file.read_exact(&mut page).ok()?;
    let number = table_page(&page, META)?;
    file.seek(SeekFrom::Start((number as u64 - 1) * PAGE as u64)).ok()?;
    file.read_exact(&mut page).ok()?;
    let meta = ChatMeta::from_row(meta_value(&page)?).ok()?;
    // Somebody may have written to it just now.
    let after = file.metadata().ok()?;
    let is_same = (before.len(), before.modified().ok()) == (after.len(), after.modified().ok());
    is_same.then_some(meta)
}

/// The value of the row whose key is `0`.
fn meta_value(page: &[u8]) -> Option<&[u8]> {
    local_rows(page).find_map(|row| match record(row)?.as_slice() {
        [Value::Text(b"0"), Value::Text(value) | Value::Blob(value)] => Some(*value),
        _ => None,
    })
}

/// The meta row of a database that is in memory as a whole.
pub(super) fn meta_in(file: &[u8]) -> Option<ChatMeta> {
    let start = (table_page(file, META)? - 1).checked_mul(PAGE)?;
    ChatMeta::from_row(meta_value(file.get(start..start.checked_add(PAGE)?)?)?).ok()
}

#[cfg(test)]
mod tests {
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
    fn what_is_out_of_the_ordinary_is_left_to_sqlite() {
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
        fn a_damaged_page_is_no_row_or_another(damage in prop::collection::vec((0..4096_usize, any::<u8>()), 1..20)) {
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
}
