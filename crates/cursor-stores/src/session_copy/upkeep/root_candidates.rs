//! Finds the best root in a store that lost its own.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::{BlobKind, visit_references};
use crate::chat::{BlobId, Fidelity, Rows, decode_message};
use crate::session_copy::error::CopyError;
use crate::session_copy::source::Source;

/// A checkpoint with an intact prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RootCandidate {
    pub id: BlobId,
    pub n_prompt_messages: usize,
    pub n_turns: usize,
}

/// How late in a conversation a checkpoint is. Compactions only add archives, and between two compactions messages are
/// only added. A checkpoint that this build understands completely comes first, then the one written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lateness {
    n_archives: usize,
    n_prompt_messages: usize,
    n_turns: usize,
    is_exact: bool,
    row: usize,
}

/// Scans every blob, and returns the latest checkpoint with an intact prompt.
pub(crate) fn best_root(source: &Source) -> Result<Option<RootCandidate>, CopyError> {
    let mut found: Vec<(Lateness, BlobId)> = Vec::new();
    source.store.at_once(|blobs| {
        let mut row = 0;
        blobs.scan(Rows::ALL, &mut |id, data| {
            row += 1;
            if let Some(lateness) = lateness(source, data, row) {
                found.push((lateness, id));
            }
            ControlFlow::Continue(())
        })
    })?;
    found.sort_unstable_by(|one, other| other.cmp(one));
    for (lateness, id) in found {
        if is_whole(source, id)? {
            return Ok(Some(RootCandidate {
                id,
                n_prompt_messages: lateness.n_prompt_messages,
                n_turns: lateness.n_turns,
            }));
        }
    }
    Ok(None)
}

/// Any bytes may decode as a message. A real checkpoint names existing messages, and all its references are ids.
fn lateness(source: &Source, data: &[u8], row: usize) -> Option<Lateness> {
    // The first field has 32 bytes. Checking that is cheaper than decoding.
    if !data.starts_with(&[0x0a, 0x20]) {
        return None;
    }
    let decoded = decode_message::<ConversationStateStructure>(data).ok()?;
    let state = &decoded.message;
    let mut has_other_ids = false;
    visit_references(BlobKind::Root, data, &mut |reference| {
        has_other_ids |= reference.id.len() != 32;
    })
    .ok()?;
    let prompt = &state.root_prompt_messages_json;
    let is_there =
        |id: &Vec<u8>| BlobId::try_from(id.as_slice()).is_ok_and(|id| source.ids.contains(&id));
    if has_other_ids || !prompt.iter().all(is_there) {
        return None;
    }
    Some(Lateness {
        n_archives: state.summary_archives.len().max(state.summary_archive.iter().count()),
        n_prompt_messages: prompt.len(),
        n_turns: state.turns.len() + state.turns_old.len(),
        is_exact: decoded.fidelity == Fidelity::Exact,
        row,
    })
}

fn is_whole(source: &Source, id: BlobId) -> Result<bool, CopyError> {
    let Ok(state) = source.fetch(id)?.state(id) else { return Ok(false) };
    Ok(source.broken_prompt_message(&state)?.is_none())
}
