use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rusqlite::types::Value;

use super::*;
use crate::chat::{BlobId, ChatStore};
use crate::test_store::{TestStore, open_writer, picture_of};

/// Returns all rows of a table, as SQL sees them.
fn rows(connection: &Connection, table: &str, columns: &str) -> BTreeSet<String> {
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM \"{table}\"")).unwrap();
    let n_columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..n_columns).map(|place| match row.get::<_, Value>(place).unwrap() {
            // As a hash, to keep test failures readable.
            Value::Blob(data) => format!("{} bytes {}", data.len(), BlobId::of(&data)),
            value => format!("{value:?}"),
        });
        Ok(values.collect::<Vec<_>>().join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Blobs of every length that SQLite stores differently, one of them written twice.
fn store_of_all_lengths() -> TestStore {
    let mut store = TestStore::new();
    store.writer.execute_batch("BEGIN").unwrap();
    for length in (0..300).chain(440..540).chain(4_000..4_200).chain([8_192, 20_000, 200_000]) {
        store.put(format!("{length} {}", "x".repeat(length)).as_bytes());
    }
    store.writer.execute_batch("COMMIT").unwrap();
    store.meta.set_name("first");
    store.put_meta();
    store.meta.set_name("second");
    store.put_meta();
    store
}

fn has_carved(connection: &Connection, table: &str) -> bool {
    let sql = format!(
        "SELECT count(*) > 0 FROM \"{table}\" WHERE \"our is_doubtful\" OR \"our n_there\" < \"our n_bytes\""
    );
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn columns_of(table: &str) -> &'static str {
    if table == "blobs" { "rowid, id, data" } else { "rowid, key, value" }
}

#[test]
fn every_row_of_an_intact_database_is_found_in_its_place_and_nothing_else() {
    let closed = store_of_all_lengths().close();
    let whole = open_writer(&closed.path());
    let before = picture_of(closed.directory.path());
    let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
    let connection = salvaged.connect().unwrap();
    for table in ["blobs", "meta"] {
        let columns = columns_of(table);
        assert_eq!(rows(&connection, table, columns), rows(&whole, table, columns));
        assert!(!has_carved(&connection, table));
    }
    assert_eq!(salvaged.lost(""..LAST).count(), 0);
    assert!(salvaged.is_all_lost_known());
    assert_eq!(picture_of(closed.directory.path()), before);
}

const LAST: &str = "\u{10FFFF}";

#[test]
fn rows_in_the_log_are_found_if_they_were_committed() {
    let store = store_of_all_lengths();
    let expected = rows(&store.writer, "blobs", columns_of("blobs"));
    let killed = store.as_killed();
    let salvaged = SalvagedDatabase::of(&killed.path()).unwrap();
    assert_eq!(rows(&salvaged.connect().unwrap(), "blobs", columns_of("blobs")), expected);

    let log = crate::database::with_suffix(&killed.path(), "-wal");
    let mut bytes = fs::read(&log).unwrap();
    let n_bytes = bytes.len();
    // The last commit is torn.
    bytes[n_bytes - 2_000] ^= 1;
    fs::write(&log, bytes).unwrap();
    let salvaged = SalvagedDatabase::of(&killed.path()).unwrap();
    let left = rows(&salvaged.connect().unwrap(), "blobs", columns_of("blobs"));
    assert!(left.is_subset(&expected));
    assert_eq!(left.len(), expected.len());
}

#[test]
fn rows_are_found_without_a_schema_page_headers_or_parent_pages() {
    let closed = store_of_all_lengths().close();
    let whole = open_writer(&closed.path());
    let expected = rows(&whole, "blobs", "id, data");
    whole.close().unwrap();
    let mut bytes = fs::read(closed.path()).unwrap();
    bytes[..4096].fill(0xa5);
    for page in bytes.chunks_mut(4096).skip(1) {
        match page[0] {
            // Erase the number of rows, and the pointers to them.
            0x0d => {
                let n_rows = usize::from(u16::from_be_bytes([page[3], page[4]]));
                page[1..8 + 2 * n_rows].fill(0);
            }
            0x05 => page.fill(0xff),
            _ => {}
        }
    }
    fs::write(closed.path(), bytes).unwrap();
    assert!(has_rows(&closed.path()));
    let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
    assert_eq!(rows(&salvaged.connect().unwrap(), "blobs", "id, data"), expected);
}

#[test]
fn a_row_with_a_broken_chain_of_pages_is_cut_and_named() {
    let store = TestStore::new();
    let long = store.put(&[b'l'; 20_000]);
    store.put(&[b'm'; 20_000]);
    let closed = store.close();
    let mut bytes = fs::read(closed.path()).unwrap();
    // One continuation page of the first row leads nowhere.
    let middle = (0..bytes.len() / 4096)
        .find(|page| bytes[page * 4096 + 4..][..4_000].iter().all(|byte| *byte == b'l'))
        .unwrap();
    bytes[middle * 4096..][..4].copy_from_slice(&0xffff_u32.to_be_bytes());
    fs::write(closed.path(), bytes).unwrap();
    let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
    let id = long.to_string();
    assert_eq!(salvaged.lost(""..LAST).collect::<Vec<_>>(), [(id.as_str(), Loss::Cut)]);
    let connection = salvaged.connect().unwrap();
    let sql = "SELECT octet_length(data), octet_length(data) = 20000 FROM blobs ORDER BY 1";
    let lengths: Vec<(i64, bool)> = connection
        .prepare(sql)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(lengths.iter().map(|(_, is_whole)| *is_whole).collect::<Vec<_>>(), [false, true]);
    assert!(lengths[0].0 > 4_000);
}

#[test]
fn a_file_without_cursors_rows_is_not_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    for content in [vec![0x0d; 40_960], b"not a database at all, ".repeat(2_000), vec![0; 8_192]] {
        fs::write(&path, content).unwrap();
        assert!(!has_rows(&path));
    }
    let file = fs::File::create(&path).unwrap();
    file.set_len(20 << 30).unwrap();
    assert!(!has_rows(&path));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changed_bytes_never_make_it_fail_or_find_more_than_the_file_holds(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
        n_cut in 0_usize..5_000,
    ) {
        let store = TestStore::new();
        for number in 0..40 {
            store.put(format!("{number} {}", "y".repeat(number * 130)).as_bytes());
        }
        let closed = store.close();
        let mut bytes = fs::read(closed.path()).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(bytes.len() - n_cut);
        fs::write(closed.path(), &bytes).unwrap();
        let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
        let connection = salvaged.connect().unwrap();
        let tables: Vec<String> = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        for table in tables {
            let sql = format!("SELECT coalesce(sum(\"our n_there\"), 0) FROM \"{table}\"");
            let n_bytes: usize = connection
                .query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap();
            prop_assert!(n_bytes <= 3 * bytes.len(), "{n_bytes} of {}", bytes.len());
            rows(&connection, &table, "*");
        }
    }
}

#[test]
fn deleted_rows_stay_deleted_if_an_index_is_complete() {
    let store = TestStore::new();
    let ids: Vec<BlobId> = (0..6).map(|number| store.put(&[b'a' + number; 500])).collect();
    for id in &ids[3..] {
        store.writer.execute("DELETE FROM blobs WHERE id = ?1", [id.to_string()]).unwrap();
    }
    let closed = store.close();
    let mut bytes = fs::read(closed.path()).unwrap();
    let page = (1..bytes.len() / 4096)
        .find(|page| {
            bytes[page * 4096] == 0x0d
                && bytes[page * 4096..][..4096].windows(50).any(|part| part == [b'b'; 50])
        })
        .unwrap();
    // The page header says that there are no rows.
    bytes[page * 4096 + 3..page * 4096 + 5].fill(0);
    fs::write(closed.path(), bytes).unwrap();
    let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
    let left = rows(&salvaged.connect().unwrap(), "blobs", "id");
    let expected: BTreeSet<String> =
        ids[..3].iter().map(|id| format!("{:?}", Value::Text(id.to_string()))).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_free_list_that_names_a_used_page_hides_no_row() {
    let store = store_of_all_lengths();
    let expected = rows(&store.writer, "blobs", "id, data");
    let rubbish = store.put(&[b'r'; 100_000]);
    store.writer.execute("DELETE FROM blobs WHERE id = ?1", [rubbish.to_string()]).unwrap();
    let closed = store.close();
    let mut bytes = fs::read(closed.path()).unwrap();
    let trunk = u32::from_be_bytes(bytes[32..36].try_into().unwrap()) as usize;
    assert!(trunk > 0);
    let leaf = (1..bytes.len() / 4096).find(|page| bytes[page * 4096] == 0x0d).unwrap();
    let number = u32::try_from(leaf + 1).unwrap();
    bytes[(trunk - 1) * 4096 + 8..][..4].copy_from_slice(&number.to_be_bytes());
    fs::write(closed.path(), bytes).unwrap();
    let salvaged = SalvagedDatabase::of(&closed.path()).unwrap();
    let left = rows(&salvaged.connect().unwrap(), "blobs", "id, data");
    assert!(left.is_superset(&expected), "{:?}", expected.difference(&left).next());
}

#[test]
fn a_damaged_store_is_read_while_it_is_written_to() {
    let mut store = store_of_some();
    store.writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    ruin_index(&store.path(), &store.writer);
    // The writer has its own log, and keeps writing.
    store.meta.set_name("goes on");
    store.put_meta();
    assert!(ChatStore::open_salvaged(&store.path()).unwrap().fetch(BlobId::of(b"0")).is_err());
    let left = ChatStore::open_salvaged(&store.path()).unwrap();
    assert!(left.is_salvaged());
    assert_eq!(n_blobs(&left), 200);
    store.meta.set_name("and on");
    store.put_meta();
    assert_eq!(n_blobs(&left), 200);
}

#[test]
fn a_store_no_longer_counts_as_damaged_once_its_owner_repaired_it() {
    let store = store_of_some();
    let closed = store.close();
    let sound = fs::read(closed.path()).unwrap();
    let connection = open_writer(&closed.path());
    ruin_index(&closed.path(), &connection);
    connection.close().unwrap();
    assert!(ChatStore::open_salvaged(&closed.path()).unwrap().fetch(BlobId::of(b"0")).is_err());
    assert!(ChatStore::open_salvaged(&closed.path()).unwrap().is_salvaged());
    // It is still the same file.
    fs::write(closed.path(), sound).unwrap();
    let whole = ChatStore::open_salvaged(&closed.path()).unwrap();
    assert!(!whole.is_salvaged());
    assert_eq!(n_blobs(&whole), 200);
}

fn store_of_some() -> TestStore {
    let store = TestStore::new();
    for number in 0..200 {
        store.put(format!("{number} {}", "z".repeat(300)).as_bytes());
    }
    store.put_meta();
    store
}

fn ruin_index(path: &Path, connection: &Connection) {
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_blobs_1'";
    let page: u64 =
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xee; 4096], (page - 1) * 4096).unwrap();
}

fn n_blobs(store: &ChatStore) -> usize {
    store.at_once(|blobs| Ok(blobs.inventory()?.0.len())).unwrap()
}
