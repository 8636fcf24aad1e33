//! Turns that are lost in the latest checkpoint and are not in one before it.
//!
//! A turn is written anew with every step, so that its blob of a moment before has nearly all of it.

use std::ops::ControlFlow;

use prost::Message;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::schema::ConversationStateStructure;
use crate::model::Damage;

/// As many of the newest blobs are looked at for earlier checkpoints.
const MAX_LOOKS: usize = 20_000;

/// The state with the turns of earlier checkpoints in the places of those that cannot be read; `None` if there are none,
/// or none is lost.
pub(super) fn with_earlier_turns(
    blobs: &Blobs<'_>,
    state: &ConversationStateStructure,
    damage: &[Damage],
) -> rusqlite::Result<Option<ConversationStateStructure>> {
    if !damage.iter().any(|damage| damage.place.starts_with("turns")) {
        return Ok(None);
    }
    let mut lost = Vec::new();
    for (place, turn) in state.turns.iter().enumerate() {
        if !is_there(blobs, turn)? {
            lost.push(place);
        }
    }
    let mut mended = state.clone();
    let mut n_looks = 0;
    let mut earlier = Vec::new();
    blobs.scan_back(&mut |id, data| {
        n_looks += 1;
        if data.starts_with(&[0x0a, 0x20])
            && BlobId::of(data) == id
            && let Ok(before) = ConversationStateStructure::decode(data)
        {
            earlier.push(before.turns);
        }
        if n_looks < MAX_LOOKS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for place in lost {
        for turns in &earlier {
            // Of the same conversation: what is before the turn is the same, as far as it was not mended.
            let is_same = turns.get(..place) == state.turns.get(..place);
            if let (true, Some(turn)) = (is_same, turns.get(place))
                && is_there(blobs, turn)?
            {
                mended.turns[place].clone_from(turn);
                break;
            }
        }
    }
    Ok((mended != *state).then_some(mended))
}

fn is_there(blobs: &Blobs<'_>, id: &[u8]) -> rusqlite::Result<bool> {
    match BlobId::try_from(id) {
        Ok(id) => Ok(matches!(blobs.get(id)?, Fetched::Data(_))),
        Err(_) => Ok(false),
    }
}
