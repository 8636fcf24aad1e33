//! Does one state of a conversation continue another? Detects an agent that forgot, and a copy that diverged.

use std::collections::HashSet;

use prost::Message;
use serde_json::Value as Json;

use crate::chat::schema::{ConversationStateStructure, ConversationSummaryArchive};
use crate::chat::store::{BlobId, Blobs, Fetched, ids_of};

/// The facts about a state that tell whether another state continues it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// The prompt without the system message, which depends on the agent's version, not on its memory.
    prompt: Vec<BlobId>,
    archives: Vec<BlobId>,
    /// The messages that summaries replaced.
    archived: Vec<BlobId>,
}

impl Ancestry {
    pub(crate) fn of(
        blobs: &Blobs<'_>,
        state: &ConversationStateStructure,
    ) -> rusqlite::Result<Self> {
        let mut prompt = ids_of(&state.root_prompt_messages_json);
        if let Some(first) = prompt.first()
            && is_of_the_system(blobs, *first)?
        {
            prompt.remove(0);
        }
        let archives = ids_of(state.summary_archives.iter().chain(&state.summary_archive));
        let mut archived = Vec::new();
        for archive in &archives {
            if let Fetched::Data(data) = blobs.get_by_index(*archive)?
                && let Ok(archive) = ConversationSummaryArchive::decode(data.as_slice())
            {
                archived.extend(ids_of(&archive.summarized_messages));
            }
        }
        Ok(Self { prompt, archives, archived })
    }

    /// Returns the number of messages, without the system message.
    #[must_use]
    pub fn n_messages(&self) -> usize {
        self.prompt.len()
    }

    /// True if this state has all messages of `earlier`: in the prompt, or in archives that have grown since then.
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

fn is_of_the_system(blobs: &Blobs<'_>, id: BlobId) -> rusqlite::Result<bool> {
    Ok(match blobs.get_by_index(id)? {
        Fetched::Data(data) => serde_json::from_slice::<Json>(&data)
            .is_ok_and(|message| message.get("role").is_some_and(|role| role == "system")),
        _ => false,
    })
}

#[cfg(test)]
#[path = "ancestry_tests.rs"]
pub(crate) mod tests;
