//! What the latest state of a conversation leads to, without going back to the states before it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use prost::Message;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::references::{BlobKind, visit_references};
use super::schema::ConversationStateStructure;

/// Where a blob is referred to: what it is, and the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) kind: BlobKind,
    /// The blob that refers to it; `None` for the state itself.
    pub(super) referrer: Option<BlobId>,
    /// Such as `todos[3]`.
    pub(super) field: String,
    /// How many were reached before it.
    pub(super) position: usize,
}

/// A store of half a gigabyte was reported to have 21,000 blobs.
const MAX_REACHED: usize = 500_000;

/// Walks everything that a state refers to, each blob once.
pub(super) fn reach(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
) -> rusqlite::Result<HashMap<BlobId, Reached>> {
    reach_with(state, &mut |id| blobs.get(id))
}

/// The same, with a way to load the blobs that lead on. Leaves are not loaded.
pub(super) fn reach_with(
    state: &ConversationStateStructure,
    load: &mut dyn FnMut(BlobId) -> rusqlite::Result<Fetched>,
) -> rusqlite::Result<HashMap<BlobId, Reached>> {
    let mut walk = ReachWalk::default();
    walk.follow(None, BlobKind::Root, &state.encode_to_vec());
    while let Some((id, kind)) = walk.queue.pop_front() {
        let leads_on = matches!(
            kind,
            BlobKind::Turn
                | BlobKind::OldTurn
                | BlobKind::UserMessage
                | BlobKind::Step
                | BlobKind::Archive
                | BlobKind::SubagentState
        );
        if leads_on && let Fetched::Data(data) = load(id)? {
            walk.follow(Some(id), kind, &data);
        }
    }
    Ok(walk.reached)
}

#[derive(Default)]
struct ReachWalk {
    reached: HashMap<BlobId, Reached>,
    queue: VecDeque<(BlobId, BlobKind)>,
}

impl ReachWalk {
    fn follow(&mut self, referrer: Option<BlobId>, kind: BlobKind, data: &[u8]) {
        let visited = visit_references(kind, data, &mut |reference| {
            // The states before each prompt hold what was there then: nothing that is not in this one, unless it was
            // edited away.
            if reference.kind == BlobKind::Root || self.reached.len() >= MAX_REACHED {
                return;
            }
            let Ok(id) = BlobId::try_from(reference.id) else { return };
            let position = self.reached.len();
            if let Entry::Vacant(place) = self.reached.entry(id) {
                let field = reference.field.to_string();
                place.insert(Reached { kind: reference.kind, referrer, field, position });
                self.queue.push_back((id, reference.kind));
            }
        });
        // What does not decode leads nowhere, and is told by whoever reads it.
        visited.ok();
    }
}
