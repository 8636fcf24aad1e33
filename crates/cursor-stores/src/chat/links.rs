//! The older reading of a store, for what does not decode: `0a 20` and `12 20` before 32 bytes are links, to messages or
//! to more links.

use std::collections::HashSet;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};

const MAX_BLOBS: usize = 100_000;
const MAX_DEPTH: usize = 64;

/// Returns the ids of the JSON messages that `data` leads to, in order, each link of each blob followed once.
pub(super) fn linked_messages(blobs: &Blobs<'_>, data: &[u8]) -> rusqlite::Result<Vec<BlobId>> {
    let mut walk = LinkWalk { blobs, seen: HashSet::new(), messages: Vec::new() };
    walk.follow(data, 0)?;
    Ok(walk.messages)
}

struct LinkWalk<'b, 'c> {
    blobs: &'b Blobs<'c>,
    seen: HashSet<BlobId>,
    messages: Vec<BlobId>,
}

impl LinkWalk<'_, '_> {
    fn follow(&mut self, data: &[u8], depth: usize) -> rusqlite::Result<()> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        for id in links(data) {
            if self.seen.len() >= MAX_BLOBS || !self.seen.insert(id) {
                continue;
            }
            let Fetched::Data(linked) = self.blobs.get(id)? else { continue };
            if linked.first() == Some(&b'{') {
                self.messages.push(id);
            } else {
                self.follow(&linked, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Returns what looks like a link, in order. Between two of them anything may stand.
fn links(data: &[u8]) -> impl Iterator<Item = BlobId> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(link) = data.get(at..at + 34) {
            if matches!(link, [0x0a | 0x12, 0x20, ..]) {
                at += 34;
                return BlobId::try_from(&link[2..]).ok();
            }
            at += 1;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::{BlobId, links};

    #[test]
    fn links_are_found_between_anything() {
        let (one, two) = (BlobId::of(b"1"), BlobId::of(b"2"));
        let bytes = [
            b"\xff\x0a".as_slice(),
            b"\x0a\x20",
            one.as_bytes(),
            b"junk",
            b"\x12\x20",
            two.as_bytes(),
            b"\x0a\x20short",
        ]
        .concat();
        assert_eq!(links(&bytes).collect::<Vec<_>>(), [one, two]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            links(&bytes).count();
        }
    }
}
