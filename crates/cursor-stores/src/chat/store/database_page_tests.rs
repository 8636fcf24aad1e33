use std::fs;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::test_store::TestStore;

/// The blobs of a store, read from its pages.
fn blobs(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut blobs = Vec::new();
    visit_rows(file, table_page(file, "blobs")?, &mut |row| {
        if let Some([_, Value::Blob(data)]) = record(row).as_deref() {
            blobs.push(data.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    blobs.sort();
    Some(blobs)
}

fn store_of(blobs: &[Vec<u8>]) -> Vec<u8> {
    let store = TestStore::new();
    store.writer.execute_batch("BEGIN").unwrap();
    for blob in blobs {
        store.put(blob);
    }
    store.writer.execute_batch("COMMIT").unwrap();
    fs::read(store.close().path()).unwrap()
}

#[test]
fn rows_of_any_length_are_put_together() {
    // Around every length at which a row spills, and enough rows for a tree of several levels.
    let lengths = (0..20).chain(3_900..4_200).chain(8_000..8_300).chain([100_000, 1_000_000]);
    let mut expected: Vec<Vec<u8>> = lengths
        .map(|length| (0..length).map(|at| ((at * 7 + length) % 251) as u8).collect())
        .collect();
    let file = store_of(&expected);
    expected.sort();
    assert!(blobs(&file).unwrap() == expected);
}

#[test]
fn visiting_stops_when_told_to() {
    let file = store_of(&[b"one".to_vec(), b"two".to_vec()]);
    let mut n_rows = 0;
    let visited = visit_rows(&file, table_page(&file, "blobs").unwrap(), &mut |_| {
        n_rows += 1;
        ControlFlow::Break(())
    });
    assert_eq!((visited, n_rows), (Some(()), 1));
}

#[test]
fn an_unusual_file_is_refused() {
    let file = store_of(&[vec![1; 10_000]]);
    assert_eq!(table_page(&file, "no such table"), None);
    assert_eq!(blobs(&file[..file.len() - 1]), None);
    assert_eq!(blobs(&file[..file.len() - PAGE]), None);
    assert_eq!(blobs(b""), None);
    let mut other_size = file.clone();
    other_size[16..18].copy_from_slice(&512_u16.to_be_bytes());
    assert_eq!(blobs(&other_size), None);
}

#[test]
fn a_cyclic_tree_ends() {
    let mut file =
        store_of(&(0..2_000_u32).map(|number| number.to_be_bytes().repeat(20)).collect::<Vec<_>>());
    let root = table_page(&file, "blobs").unwrap();
    let start = (root - 1) * PAGE;
    assert_eq!(file[start], INTERIOR);
    file[start + 8..start + 12].copy_from_slice(&u32::try_from(root).unwrap().to_be_bytes());
    assert_eq!(blobs(&file), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        table_page(&bytes, "meta");
        record(&bytes);
        local_rows(&bytes).count();
        visit_rows(&bytes, 2, &mut |_| ControlFlow::Continue(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn damaged_pages_never_cause_a_panic(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..50)) {
        let mut file = store_of(&(0..300_u32).map(|number| number.to_be_bytes().repeat(20)).collect::<Vec<_>>());
        for (index, byte) in damage {
            let index = index.index(file.len());
            file[index] = byte;
        }
        blobs(&file);
    }
}
