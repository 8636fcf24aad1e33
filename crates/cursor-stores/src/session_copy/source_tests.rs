use std::collections::{BTreeSet, HashSet};

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::test_store::TestStore;

fn reached(store: &TestStore, root: BlobId) -> BTreeSet<BlobId> {
    let source = Source::open(&store.path()).unwrap();
    source.reach_from(&[root]).unwrap().ids.into_iter().collect()
}

#[test]
fn a_blob_that_an_unknown_field_names_is_reached() {
    let store = TestStore::new();
    let (leaf, hidden) = (store.put(b"leaf"), store.put(b"named by no blob"));
    // Field 4000, which no schema has.
    let unknown = [&[0x82, 0xfa, 0x01, 0x20][..], leaf.as_bytes()].concat();
    let middle = store.put(&unknown);
    let root = store.put(format!("{{\"next\":\"{middle}\"}}").as_bytes());
    assert_eq!(reached(&store, root), BTreeSet::from([root, middle, leaf]));
    assert!(!reached(&store, root).contains(&hidden));
}

#[test]
fn a_damaged_blob_is_reported_and_still_followed() {
    let store = TestStore::new();
    let leaf = store.put(b"leaf");
    let damaged = BlobId::of(b"something else");
    store.put_as(damaged, leaf.as_bytes());
    let root = store.put(damaged.as_bytes());
    let reach = Source::open(&store.path()).unwrap().reach_from(&[root]).unwrap();
    assert_eq!(reach.ids, HashSet::from([root, damaged, leaf]));
    assert_eq!(reach.damaged, [damaged]);
}

#[test]
fn a_missing_root_leads_nowhere() {
    let store = TestStore::new();
    store.put(b"leaf");
    assert_eq!(reached(&store, BlobId::of(b"not there")), BTreeSet::new());
}

/// A blob: the bytes before each name, the named blob, and the form of the name.
type Blob = Vec<(Vec<u8>, prop::sample::Index, u8)>;

fn blob() -> impl Strategy<Value = Blob> {
    prop::collection::vec((any::<Vec<u8>>(), any::<prop::sample::Index>(), 0..3_u8), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_reachable_blob_is_reached(graph in prop::collection::vec(blob(), 1..24)) {
        let store = TestStore::new();
        store.writer.execute_batch("BEGIN").unwrap();
        let mut ids: Vec<BlobId> = Vec::new();
        let mut edges: Vec<Vec<usize>> = Vec::new();
        for (number, parts) in graph.iter().enumerate() {
            // Unique, so that each blob has its own name.
            let mut data = (number as u64).to_be_bytes().to_vec();
            let mut named = Vec::new();
            for (between, which, form) in parts.iter().filter(|_| number > 0) {
                let target = which.index(number);
                data.extend(between);
                match form {
                    0 => data.extend(ids[target].as_bytes()),
                    1 => data.extend(ids[target].to_string().bytes()),
                    _ => data.extend(ids[target].to_string().to_uppercase().bytes()),
                }
                named.push(target);
            }
            ids.push(store.put(&data));
            edges.push(named);
        }
        store.writer.execute_batch("COMMIT").unwrap();
        let root = ids.len() - 1;
        let mut expected = BTreeSet::new();
        let mut rest = vec![root];
        while let Some(number) = rest.pop() {
            if expected.insert(ids[number]) {
                rest.extend(&edges[number]);
            }
        }
        prop_assert_eq!(reached(&store, ids[root]), expected);
    }
}
