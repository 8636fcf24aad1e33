//! The relation between two checkpoints of one conversation.

use crate::chat::Ancestry;
use crate::session_copy::error::CopyError;
use crate::session_copy::fork_point::Checkpoint;
use crate::session_copy::source::Source;

/// How a second checkpoint relates to a first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootRelation {
    /// Both have the same messages.
    Same,
    /// The second continues the first.
    Extends,
    /// The first continues the second.
    IsExtended,
    /// Each has messages that the other lacks.
    Diverged,
}

/// How far a conversation has progressed at a checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The model's memory.
    ancestry: Ancestry,
    /// The visible turns, and the pending messages.
    n_turns: usize,
    n_pending_bytes: usize,
}

impl Progress {
    pub(crate) fn of(source: &Source, checkpoint: &Checkpoint) -> Result<Self, CopyError> {
        let state = &checkpoint.state;
        Ok(Self {
            ancestry: source.store.at_once(|blobs| Ancestry::of(blobs, state))?,
            n_turns: state.turns.len() + state.turns_old.len(),
            n_pending_bytes: state.pending_tool_calls.iter().map(String::len).sum(),
        })
    }
}

impl RootRelation {
    /// Compares the model's memory, like the check for amnesia.
    pub(crate) fn of(first: &Progress, second: &Progress) -> Self {
        let goes_on = second.ancestry.extends(&first.ancestry);
        match (goes_on, first.ancestry.extends(&second.ancestry)) {
            (true, false) => Self::Extends,
            (false, true) => Self::IsExtended,
            (false, false) => Self::Diverged,
            // The memory is the same. The visible turns and the pending messages decide.
            (true, true) => {
                let is_within = |one: &Progress, other: &Progress| {
                    one.n_turns <= other.n_turns && one.n_pending_bytes <= other.n_pending_bytes
                };
                match (is_within(first, second), is_within(second, first)) {
                    (true, true) => Self::Same,
                    (true, false) => Self::Extends,
                    (false, true) => Self::IsExtended,
                    (false, false) => Self::Diverged,
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "root_relation_tests.rs"]
mod tests;
