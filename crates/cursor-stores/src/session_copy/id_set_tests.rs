use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn named_in(ids: &[BlobId], data: &[u8]) -> BTreeSet<BlobId> {
    let mut named = BTreeSet::new();
    ids.iter().copied().collect::<IdSet>().visit_named(data, &mut |id| {
        named.insert(id);
    });
    named
}

#[test]
fn an_id_is_found_raw_and_as_digits_of_either_case_between_anything() {
    let ids = [BlobId::of(b"1"), BlobId::of(b"2"), BlobId::of(b"3"), BlobId::of(b"4")];
    let data = [
        b"\x00\xff".as_slice(),
        ids[0].as_bytes(),
        b"{\"id\":\"abcdef",
        ids[1].to_string().as_bytes(),
        b"0123\"}",
        ids[2].to_string().to_uppercase().as_bytes(),
    ]
    .concat();
    assert_eq!(named_in(&ids, &data), BTreeSet::from([ids[0], ids[1], ids[2]]));
}

#[test]
fn a_truncated_id_is_not_found() {
    let id = BlobId::of(b"1");
    assert_eq!(named_in(&[id], &id.as_bytes()[..31]), BTreeSet::new());
    assert_eq!(named_in(&[id], &id.to_string().as_bytes()[1..]), BTreeSet::new());
    assert_eq!(named_in(&[], id.as_bytes()), BTreeSet::new());
}

proptest! {
    #[test]
    fn no_id_is_ever_missed(
        seeds in prop::collection::vec(any::<[u8; 4]>(), 1..8),
        parts in prop::collection::vec((any::<Vec<u8>>(), any::<prop::sample::Index>(), 0..3), 0..8),
    ) {
        let ids: Vec<BlobId> = seeds.iter().map(|seed| BlobId::of(seed)).collect();
        let mut data = Vec::new();
        let mut written = BTreeSet::new();
        for (between, which, form) in parts {
            let id = ids[which.index(ids.len())];
            data.extend(between);
            match form {
                0 => data.extend(id.as_bytes()),
                1 => data.extend(id.to_string().bytes()),
                _ => data.extend(id.to_string().to_uppercase().bytes()),
            }
            written.insert(id);
        }
        prop_assert!(named_in(&ids, &data).is_superset(&written));
    }
}
