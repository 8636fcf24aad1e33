//! Finding the ids of a store's blobs inside of any bytes.

use std::collections::HashSet;

use crate::chat::BlobId;

/// How many leading bits of an id are looked up before the id itself. The table of them fits into a cache, and of twenty
/// thousand ids it lets two of a hundred random places pass.
const PREFIX_BITS: u32 = 20;
const PREFIX_NIBBLES: usize = PREFIX_BITS as usize / 4;
const ID_BYTES: usize = 32;
const ID_DIGITS: usize = 64;

/// The ids of a store's blobs.
#[derive(Debug)]
pub(super) struct IdSet {
    ids: HashSet<BlobId>,
    prefixes: Vec<u64>,
}

impl FromIterator<BlobId> for IdSet {
    fn from_iter<I: IntoIterator<Item = BlobId>>(ids: I) -> Self {
        let ids: HashSet<BlobId> = ids.into_iter().collect();
        let mut prefixes = vec![0; (1 << PREFIX_BITS) / u64::BITS as usize];
        for id in &ids {
            let prefix = prefix_of(id.as_bytes());
            prefixes[prefix / 64] |= 1_u64 << (prefix % 64);
        }
        Self { ids, prefixes }
    }
}

impl IdSet {
    pub(super) fn contains(&self, id: &BlobId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Calls `found` with every id that the bytes name anywhere, as 32 bytes or as 64 hex digits of either case.
    pub(super) fn visit_named(&self, data: &[u8], found: &mut dyn FnMut(BlobId)) {
        self.visit_raw(data, found);
        self.visit_hex(data, found);
    }

    fn visit_raw(&self, data: &[u8], found: &mut dyn FnMut(BlobId)) {
        for window in data.windows(ID_BYTES) {
            if self.may_begin(prefix_of(window)) {
                self.visit_if_known(BlobId::try_from(window).ok(), found);
            }
        }
    }

    /// A run of digits may be longer than one id and begin anywhere in it: binary values in JSON are written so.
    fn visit_hex(&self, data: &[u8], found: &mut dyn FnMut(BlobId)) {
        let mut n_digits = 0;
        let mut prefix = 0_usize;
        for (at, byte) in data.iter().enumerate() {
            let Some(digit) = char::from(*byte).to_digit(16) else {
                n_digits = 0;
                continue;
            };
            n_digits += 1;
            prefix = (prefix << 4 | digit as usize) & ((1 << PREFIX_BITS) - 1);
            if n_digits < PREFIX_NIBBLES || !self.may_begin(prefix) {
                continue;
            }
            let begin = at + 1 - PREFIX_NIBBLES;
            let text = data.get(begin..begin + ID_DIGITS).map(std::str::from_utf8);
            let Some(Ok(text)) = text else { continue };
            self.visit_if_known(text.parse().ok(), found);
        }
    }

    fn visit_if_known(&self, id: Option<BlobId>, found: &mut dyn FnMut(BlobId)) {
        if let Some(id) = id.filter(|id| self.contains(id)) {
            found(id);
        }
    }

    fn may_begin(&self, prefix: usize) -> bool {
        self.prefixes[prefix / 64] & (1_u64 << (prefix % 64)) != 0
    }
}

/// The first bits of at least three bytes.
fn prefix_of(bytes: &[u8]) -> usize {
    let first = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
    first >> (24 - PREFIX_BITS)
}

#[cfg(test)]
mod tests {
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
    fn what_is_cut_short_is_no_name() {
        let id = BlobId::of(b"1");
        assert_eq!(named_in(&[id], &id.as_bytes()[..31]), BTreeSet::new());
        assert_eq!(named_in(&[id], &id.to_string().as_bytes()[1..]), BTreeSet::new());
        assert_eq!(named_in(&[], id.as_bytes()), BTreeSet::new());
    }

    proptest! {
        #[test]
        fn no_name_is_ever_lost(
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
}
