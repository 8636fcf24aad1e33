//! The oldest form of a store, for blobs that do not decode: `0a 20` or `12 20` before 32 bytes is a link, to a
//! message or to more links.

use std::collections::HashSet;

use crate::chat::store::{BlobId, Blobs, Fetched};

const MAX_BLOBS: usize = 100_000;
const MAX_DEPTH: usize = 64;

/// Returns the ids of the JSON messages that `data` leads to, in order. Follows each link once.
pub(crate) fn linked_messages(blobs: &Blobs<'_>, data: &[u8]) -> rusqlite::Result<Vec<BlobId>> {
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

/// Returns the bytes that look like links, in order. Any bytes may be between them.
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
#[path = "links_tests.rs"]
mod tests;
