//! The only walk over the blob graph: from a blob to every blob that its fields refer to.

use std::collections::{HashMap, HashSet, VecDeque};

use prost::Message;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::{BlobKind, NotOfKind, Reference, visit_references};

/// A store of half a gigabyte was reported to have 21,000 blobs.
pub(crate) const MAX_REFERENCES: usize = 500_000;

/// Does a walk follow the earlier state that a user message refers to?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierStates {
    Follow,
    /// The latest state has everything that an earlier state has, except what the user removed by editing.
    Skip,
}

/// A breadth-first walk. It visits each blob once for each kind that a field gives it.
#[derive(Debug)]
pub(crate) struct BlobWalk {
    queue: VecDeque<Visit>,
    seen: HashSet<(BlobId, BlobKind)>,
    earlier_states: EarlierStates,
    max_references: usize,
    pub(crate) is_cut_short: bool,
}

/// A blob to visit, and the field that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) id: BlobId,
    pub(crate) kind: BlobKind,
    /// `None` for the state where the walk began.
    pub(crate) referrer: Option<BlobId>,
    /// For example `todos[3]`.
    pub(crate) field: String,
    /// True for a message in the prompt of the referring state.
    pub(crate) is_prompt: bool,
}

impl BlobWalk {
    pub(crate) fn new(earlier_states: EarlierStates, max_references: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            seen: HashSet::new(),
            earlier_states,
            max_references,
            is_cut_short: false,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Visit> {
        self.queue.pop_front()
    }

    /// Queues every blob that `data` refers to and that the walk has not seen. Calls `malformed` for a reference that is
    /// not a blob id.
    pub(crate) fn follow(
        &mut self,
        referrer: Option<BlobId>,
        kind: BlobKind,
        data: &[u8],
        malformed: &mut dyn FnMut(&Reference<'_>),
    ) -> Result<(), NotOfKind> {
        self.seen.extend(referrer.map(|referrer| (referrer, kind)));
        visit_references(kind, data, &mut |reference| {
            let Ok(id) = BlobId::try_from(reference.id) else { return malformed(&reference) };
            let is_skipped = reference.kind == BlobKind::Root
                && self.earlier_states == EarlierStates::Skip
                || self.seen.contains(&(id, reference.kind));
            if is_skipped {
                return;
            }
            if self.seen.len() >= self.max_references {
                self.is_cut_short = true;
                return;
            }
            self.seen.insert((id, reference.kind));
            self.queue.push_back(Visit {
                id,
                kind: reference.kind,
                referrer,
                field: reference.field.to_string(),
                is_prompt: reference.field.is_prompt(),
            });
        })
    }
}

/// A blob that a state leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) visit: Visit,
    /// How many blobs the walk reached before this one.
    pub(crate) position: usize,
}

/// Walks everything that a state refers to, except earlier states.
pub(crate) fn reach(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
) -> rusqlite::Result<HashMap<BlobId, Reached>> {
    reach_with(state, &mut |id| blobs.get(id))
}

/// Like [`reach`], but `load` reads the blobs that refer to others. The walk loads no leaves.
pub(crate) fn reach_with(
    state: &ConversationStateStructure,
    load: &mut dyn FnMut(BlobId) -> rusqlite::Result<Fetched>,
) -> rusqlite::Result<HashMap<BlobId, Reached>> {
    let mut walk = BlobWalk::new(EarlierStates::Skip, MAX_REFERENCES);
    let mut reached = HashMap::new();
    // A blob that does not decode leads nowhere. The code that reads the blob reports it.
    walk.follow(None, BlobKind::Root, &state.encode_to_vec(), &mut |_| {}).ok();
    while let Some(visit) = walk.next() {
        if visit.kind.leads_on()
            && let Fetched::Data(data) = load(visit.id)?
        {
            walk.follow(Some(visit.id), visit.kind, &data, &mut |_| {}).ok();
        }
        let position = reached.len();
        reached.entry(visit.id).or_insert(Reached { visit, position });
    }
    Ok(reached)
}
