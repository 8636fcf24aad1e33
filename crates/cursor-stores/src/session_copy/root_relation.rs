//! How two checkpoints of one conversation stand to each other.

use super::fork_point::Checkpoint;
use super::reachable::{CopySourceError, Source};
use crate::chat::Ancestry;

/// What a second checkpoint is to a first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RootRelation {
    /// Nothing was said between them.
    Same,
    /// The conversation went on from the first to the second.
    Extends,
    /// The conversation went on from the second to the first.
    IsExtended,
    /// Each has something that the other has not.
    Diverged,
}

/// How far a conversation has come at a checkpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// What the model remembers.
    ancestry: Ancestry,
    /// What is shown, and what is in flight.
    n_turns: usize,
    n_pending_bytes: usize,
}

impl Progress {
    pub(super) fn of(source: &Source, checkpoint: &Checkpoint) -> Result<Self, CopySourceError> {
        let state = &checkpoint.state;
        Ok(Self {
            ancestry: source.store.at_once(|blobs| Ancestry::of(blobs, state))?,
            n_turns: state.turns.len() + state.turns_old.len(),
            n_pending_bytes: state.pending_tool_calls.iter().map(String::len).sum(),
        })
    }
}

impl RootRelation {
    /// Compares by what the model remembers, as the check for amnesia does.
    pub(super) fn of(first: &Progress, second: &Progress) -> Self {
        let goes_on = second.ancestry.extends(&first.ancestry);
        match (goes_on, first.ancestry.extends(&second.ancestry)) {
            (true, false) => Self::Extends,
            (false, true) => Self::IsExtended,
            (false, false) => Self::Diverged,
            // The same memory. What is shown and what is in flight decides.
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::chat::ancestry::tests::state;

    fn progress(prompt: &[u8], archives: &[u8], archived: &[u8]) -> Progress {
        Progress { ancestry: state(prompt, archives, archived), ..Progress::default() }
    }

    #[test]
    fn messages_are_added_and_compactions_archive_them() {
        use RootRelation::*;
        let plain = |prompt: &[u8]| progress(prompt, &[], &[]);
        for (first, second, expected) in [
            (plain(&[1, 2]), plain(&[1, 2, 3]), Extends),
            (plain(&[1, 2, 3]), plain(&[1, 2]), IsExtended),
            (plain(&[1, 2, 3]), plain(&[1, 2, 4]), Diverged),
            (plain(&[1, 2]), plain(&[1, 2]), Same),
            (plain(&[1, 2, 3, 4]), progress(&[1, 9], &[7], &[2, 3, 4]), Extends),
            (plain(&[1, 2, 3, 4]), progress(&[1, 9], &[7], &[2, 3]), Diverged),
            (progress(&[1, 9], &[7], &[2, 3, 4]), plain(&[1, 2, 3, 4]), IsExtended),
            (progress(&[1, 9], &[7], &[2]), progress(&[1, 8, 3], &[6], &[2]), Diverged),
            (progress(&[1, 9], &[7], &[2]), progress(&[1, 9, 3], &[7], &[2]), Extends),
        ] {
            assert_eq!(RootRelation::of(&first, &second), expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_message_in_flight_is_not_given_up_for_the_same_prompt_without_it() {
        let without = progress(&[1, 2], &[], &[]);
        let with = Progress { n_pending_bytes: 2, ..without.clone() };
        assert_eq!(RootRelation::of(&without, &with), RootRelation::Extends);
        assert_eq!(RootRelation::of(&with, &without), RootRelation::IsExtended);
    }
}
