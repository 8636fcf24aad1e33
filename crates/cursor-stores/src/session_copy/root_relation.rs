//! How two checkpoints of one conversation stand to each other.

use crate::chat::schema::ConversationStateStructure;

/// What a second checkpoint is to a first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootRelation {
    /// The conversation went on from the first to the second.
    Extends,
    /// The conversation went on from the second to the first.
    IsExtended,
    /// Each has something that the other has not.
    Diverged,
}

impl RootRelation {
    /// Compares by what the model remembers: messages are only added, but for a compaction, which archives them.
    #[must_use]
    pub fn of(first: &ConversationStateStructure, second: &ConversationStateStructure) -> Self {
        match (goes_on(first, second), goes_on(second, first)) {
            (true, false) => Self::Extends,
            (false, true) => Self::IsExtended,
            (false, false) => Self::Diverged,
            // The same memory. What is shown and what is in flight decides.
            (true, true) => {
                let size = |state: &ConversationStateStructure| {
                    [
                        state.turns.len() + state.turns_old.len(),
                        state.pending_tool_calls.iter().map(String::len).sum(),
                    ]
                };
                let (first, second) = (size(first), size(second));
                let is_within = |one: [usize; 2], other: [usize; 2]| {
                    one.iter().zip(other).all(|(one, other)| *one <= other)
                };
                match (is_within(first, second), is_within(second, first)) {
                    (true, _) => Self::Extends,
                    (false, true) => Self::IsExtended,
                    (false, false) => Self::Diverged,
                }
            }
        }
    }
}

fn goes_on(first: &ConversationStateStructure, second: &ConversationStateStructure) -> bool {
    let (old, new) = (archives(first), archives(second));
    if new.len() == old.len() {
        return new == old
            && second.root_prompt_messages_json.starts_with(&first.root_prompt_messages_json);
    }
    new.len() > old.len() && new.starts_with(&old)
}

fn archives(state: &ConversationStateStructure) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = state.summary_archives.iter().map(Vec::as_slice).collect();
    // The older, single form is written beside the newer.
    if all.is_empty() {
        all.extend(state.summary_archive.as_deref());
    }
    all
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn state(messages: &[u8], archives: &[u8]) -> ConversationStateStructure {
        let ids = |bytes: &[u8]| bytes.iter().map(|byte| vec![*byte; 32]).collect();
        ConversationStateStructure {
            root_prompt_messages_json: ids(messages),
            summary_archives: ids(archives),
            ..ConversationStateStructure::default()
        }
    }

    #[test]
    fn messages_are_added_and_compactions_archive_them() {
        use RootRelation::*;
        for (first, second, expected) in [
            (state(&[1, 2], &[]), state(&[1, 2, 3], &[]), Extends),
            (state(&[1, 2, 3], &[]), state(&[1, 2], &[]), IsExtended),
            (state(&[1, 2, 3], &[]), state(&[1, 2, 4], &[]), Diverged),
            (state(&[1, 2], &[]), state(&[1, 2], &[]), Extends),
            (state(&[1, 2, 3, 4], &[]), state(&[1, 9], &[7]), Extends),
            (state(&[1, 9], &[7]), state(&[1, 2, 3, 4], &[]), IsExtended),
            (state(&[1, 9], &[7]), state(&[1, 9, 3], &[8]), Diverged),
            (state(&[1, 9], &[7]), state(&[1, 9, 3], &[7]), Extends),
        ] {
            assert_eq!(RootRelation::of(&first, &second), expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_message_in_flight_is_not_given_up_for_the_same_prompt_without_it() {
        let without = state(&[1, 2], &[]);
        let mut with = without.clone();
        with.pending_tool_calls.push("{}".to_owned());
        assert_eq!(RootRelation::of(&without, &with), RootRelation::Extends);
        assert_eq!(RootRelation::of(&with, &without), RootRelation::IsExtended);
    }
}
