//! Finds the ids of a store's blobs in arbitrary bytes.

use std::collections::HashSet;

use crate::chat::BlobId;

/// The search compares this many leading bits before the whole id. The table of these bits fits into a cache. With
/// twenty thousand ids, 2% of random positions pass this first check.
const PREFIX_BITS: u32 = 20;
const PREFIX_NIBBLES: usize = PREFIX_BITS as usize / 4;
const ID_BYTES: usize = 32;
const ID_DIGITS: usize = 64;

/// The ids of a store's blobs.
#[derive(Debug)]
pub(crate) struct IdSet {
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
    pub(crate) fn contains(&self, id: &BlobId) -> bool {
        self.ids.contains(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Calls `found` with every id that occurs in the bytes, as 32 bytes or as 64 hex digits of either case.
    pub(crate) fn visit_named(&self, data: &[u8], found: &mut dyn FnMut(BlobId)) {
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

    /// Finds ids written as hex digits. A run of digits may be longer than an id, and an id may begin anywhere in it,
    /// because JSON holds binary values as hex digits.
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

/// Returns the first `PREFIX_BITS` bits. There must be at least three bytes.
fn prefix_of(bytes: &[u8]) -> usize {
    let first = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
    first >> (24 - PREFIX_BITS)
}

#[cfg(test)]
#[path = "id_set_tests.rs"]
mod tests;
