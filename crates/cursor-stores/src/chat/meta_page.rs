//! The meta row of a closed store, read from its page: opening a database takes thirty times as long, and a list of old
//! chats has thousands of them.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::meta::ChatMeta;
use crate::plain_file;

const MAGIC: &[u8] = b"SQLite format 3\0";
const SCHEMA_HEADER: usize = 100;
const TABLE_LEAF: u8 = 0x0d;
const UTF_8: u32 = 1;

/// Reads the meta row of a database that has no log. `None` if anything about the file is out of the ordinary: then
/// only SQLite can tell.
pub(super) fn read_meta_page(path: &Path) -> Option<ChatMeta> {
    let mut file = plain_file::open(path).ok()?;
    let before = file.metadata().ok()?;
    let mut first = vec![0; 4096];
    file.read_exact(&mut first).ok()?;
    let number = meta_root_page(&first)?;
    let mut page = vec![0; page_size(&first)?];
    file.seek(SeekFrom::Start(u64::from(number - 1) * page.len() as u64)).ok()?;
    file.read_exact(&mut page).ok()?;
    let meta = ChatMeta::from_row(meta_value(&page)?).ok()?;
    // Somebody may have written to it just now.
    let after = file.metadata().ok()?;
    let is_same = (before.len(), before.modified().ok()) == (after.len(), after.modified().ok());
    is_same.then_some(meta)
}

fn page_size(first: &[u8]) -> Option<usize> {
    let size = usize::from(u16::from_be_bytes(first.get(16..18)?.try_into().ok()?));
    // As Cursor makes them; others may have reserved bytes and what not.
    (first.starts_with(MAGIC) && size == 4096 && first.get(20) == Some(&0)).then_some(size)
}

/// Finds the page of the table `meta` in the schema, which fits the first page of every store.
fn meta_root_page(first: &[u8]) -> Option<u32> {
    page_size(first)?;
    let encoding = u32::from_be_bytes(first.get(56..60)?.try_into().ok()?);
    let root = cells(first, SCHEMA_HEADER).find_map(|record| {
        let [kind, name, _, root, ..] = record.as_slice() else { return None };
        let is_meta = *kind == Value::Text(b"table") && *name == Value::Text(b"meta");
        match root {
            Value::Integer(root) if is_meta => u32::try_from(*root).ok(),
            _ => None,
        }
    })?;
    (encoding == UTF_8 && root > 1).then_some(root)
}

/// The value of the row whose key is `0`.
fn meta_value(page: &[u8]) -> Option<&[u8]> {
    cells(page, 0).find_map(|record| match record.as_slice() {
        [Value::Text(b"0"), Value::Text(value) | Value::Blob(value)] => Some(*value),
        _ => None,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Value<'a> {
    Integer(i64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
    Other,
}

/// The records of a leaf page, but for those that do not fit it.
fn cells(page: &[u8], header: usize) -> impl Iterator<Item = Vec<Value<'_>>> {
    let is_leaf = page.get(header) == Some(&TABLE_LEAF);
    let n_cells = big_endian_16(page, header + 3).filter(|_| is_leaf).unwrap_or(0);
    (0..n_cells).filter_map(move |cell| {
        let start = big_endian_16(page, header + 8 + 2 * cell)?;
        record(page.get(start..)?)
    })
}

fn big_endian_16(page: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(page.get(at..at + 2)?.try_into().ok()?)))
}

/// Reads a cell: length, row number, then the record: its header of types, and the values.
fn record(mut cell: &[u8]) -> Option<Vec<Value<'_>>> {
    let length = usize::try_from(varint(&mut cell)?).ok()?;
    varint(&mut cell)?;
    // What is longer continues on other pages.
    let payload = cell.get(..length).filter(|payload| payload.len() <= 4096 - 35)?;
    let mut types = payload;
    let header = usize::try_from(varint(&mut types)?).ok()?;
    let mut types = payload.get(payload.len() - types.len()..header)?;
    let mut values = payload.get(header..)?;
    let mut record = Vec::new();
    while !types.is_empty() {
        record.push(value(varint(&mut types)?, &mut values)?);
    }
    Some(record)
}

fn value<'a>(kind: u64, values: &mut &'a [u8]) -> Option<Value<'a>> {
    let length = match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        kind => (kind - 12) / 2,
    };
    let (bytes, rest) = values.split_at_checked(usize::try_from(length).ok()?)?;
    *values = rest;
    Some(match kind {
        1..=4 => {
            Value::Integer(bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte)))
        }
        8 | 9 => Value::Integer(i64::try_from(kind - 8).ok()?),
        12.. if kind.is_multiple_of(2) => Value::Blob(bytes),
        12.. => Value::Text(bytes),
        _ => Value::Other,
    })
}

/// SQLite's own: most significant bits first, and a ninth byte has eight of them.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            return Some(value << 8 | u64::from(*byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
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
        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), header in 0..120_usize) {
            meta_root_page(&bytes);
            meta_value(&bytes);
            record(&bytes);
            cells(&bytes, header).count();
        }

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
