//! Whether one state of a conversation continues another: the test for an agent that forgot, and for a copy that went
//! another way.

use std::collections::HashSet;

use prost::Message;
use serde_json::Value as Json;

use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::schema::{ConversationStateStructure, ConversationSummaryArchive};

/// What is remembered of a state to recognise those that continue it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// What the model is prompted with, without the system's own message: that one is an agent's version, not a memory.
    prompt: Vec<BlobId>,
    archives: Vec<BlobId>,
    /// The messages that summaries stand for.
    archived: Vec<BlobId>,
}

impl Ancestry {
    pub(crate) fn of(
        blobs: &Blobs<'_>,
        state: &ConversationStateStructure,
    ) -> rusqlite::Result<Self> {
        let mut prompt = ids(&state.root_prompt_messages_json);
        if let Some(first) = prompt.first()
            && is_of_the_system(blobs, *first)?
        {
            prompt.remove(0);
        }
        let mut archives = ids(&state.summary_archives);
        archives.extend(state.summary_archive.as_deref().and_then(|id| BlobId::try_from(id).ok()));
        let mut archived = Vec::new();
        for archive in &archives {
            if let Fetched::Data(data) = blobs.get_by_index(*archive)?
                && let Ok(archive) = ConversationSummaryArchive::decode(data.as_slice())
            {
                archived.extend(ids(&archive.summarized_messages));
            }
        }
        Ok(Self { prompt, archives, archived })
    }

    /// How many messages there are, the system's own left out.
    #[must_use]
    pub fn n_messages(&self) -> usize {
        self.prompt.len()
    }

    /// Tells whether this state has all that `earlier` had: the same messages and more, or grown archives that hold what
    /// the prompt has no more.
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        if self.prompt.starts_with(&earlier.prompt) {
            return true;
        }
        let kept: HashSet<&BlobId> = self.prompt.iter().chain(&self.archived).collect();
        let has_grown = self.archives.iter().any(|archive| !earlier.archives.contains(archive));
        has_grown && earlier.prompt.iter().all(|message| kept.contains(message))
    }
}

fn ids(raw: &[Vec<u8>]) -> Vec<BlobId> {
    raw.iter().filter_map(|id| BlobId::try_from(id.as_slice()).ok()).collect()
}

fn is_of_the_system(blobs: &Blobs<'_>, id: BlobId) -> rusqlite::Result<bool> {
    Ok(match blobs.get_by_index(id)? {
        Fetched::Data(data) => serde_json::from_slice::<Json>(&data)
            .is_ok_and(|message| message.get("role").is_some_and(|role| role == "system")),
        _ => false,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn state(prompt: &[u8], archives: &[u8], archived: &[u8]) -> Ancestry {
        let ids = |bytes: &[u8]| bytes.iter().map(|byte| BlobId::of(&[*byte])).collect();
        Ancestry { prompt: ids(prompt), archives: ids(archives), archived: ids(archived) }
    }

    #[test]
    fn a_summary_that_holds_everything_continues_and_one_that_does_not_forgets() {
        let before = state(&[1, 2, 3], &[], &[]);
        assert!(state(&[3, 9], &[7], &[1, 2]).extends(&before));
        assert!(!state(&[3, 9], &[7], &[1]).extends(&before));
        assert!(!state(&[3, 9], &[], &[]).extends(&before));
        let archived = state(&[3, 9], &[7], &[1, 2]);
        assert!(!state(&[9, 3], &[7], &[1, 2]).extends(&archived), "another order is another talk");
        assert!(state(&[8], &[7, 6], &[1, 2, 3, 9]).extends(&archived));
    }

    proptest! {
        #[test]
        fn whatever_is_added_continues_and_whatever_is_lost_does_not(
            prompt in prop::collection::vec(any::<u8>(), 1..20),
            more in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let before = state(&prompt, &[], &[]);
            prop_assert!(state(&[prompt.clone(), more].concat(), &[], &[]).extends(&before));
            prop_assert!(!state(&prompt[..prompt.len() - 1], &[], &[]).extends(&before));
        }
    }
}
