//! A root's messages, in order: first the messages that compactions archived, then the prompt.

use std::collections::HashSet;

use crate::chat::reading::{BearsOn, Notes};
use crate::chat::schema::references::PROMPT_MESSAGES_FIELD;
use crate::chat::schema::{ConversationStateStructure, ConversationSummaryArchive};
use crate::chat::store::{BlobId, Blobs};

/// One message to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) content: EntryContent,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryContent {
    Blob(BlobId),
    /// A summary that has no message of its own.
    Summary {
        archive: BlobId,
        text: String,
    },
}

/// The field that refers to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Prompt(usize),
    Archived {
        archive: usize,
        message: usize,
    },
    ArchiveSummary(usize),
    /// No field: found by following links, or by scanning all blobs.
    Found(usize),
}

impl Place {
    pub(crate) fn bears_on(self) -> BearsOn {
        match self {
            Self::Prompt(_) => BearsOn::Prompt,
            Self::Archived { .. } | Self::ArchiveSummary(_) | Self::Found(_) => BearsOn::History,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Prompt(index) => write!(formatter, "{PROMPT_MESSAGES_FIELD}[{index}]"),
            Self::Archived { archive, message } => {
                write!(formatter, "summary_archives[{archive}].summarized_messages[{message}]")
            }
            Self::ArchiveSummary(archive) => {
                write!(formatter, "summary_archives[{archive}].summary_message")
            }
            Self::Found(index) => write!(formatter, "message {index}"),
        }
    }
}

/// Lists a root's messages. Reads only the archives, and returns messages as ids.
pub(crate) fn list_messages(
    blobs: &Blobs<'_>,
    root: &ConversationStateStructure,
    notes: &mut Notes,
) -> rusqlite::Result<Vec<Entry>> {
    let mut list = List::default();
    for (index, (id, archive)) in archives(blobs, root, notes)?.into_iter().enumerate() {
        let place = |message| Place::Archived { archive: index, message };
        list.append(&archive.summarized_messages, place, notes);
        list.append_summary(index, id, &archive, notes);
    }
    list.append(&root.root_prompt_messages_json, Place::Prompt, notes);
    Ok(list.entries)
}

/// Reads the list of archives. The single archive of older builds comes first, unless the list has it too.
fn archives(
    blobs: &Blobs<'_>,
    root: &ConversationStateStructure,
    notes: &mut Notes,
) -> rusqlite::Result<Vec<(BlobId, ConversationSummaryArchive)>> {
    let mut seen = HashSet::new();
    let mut archives = Vec::new();
    let single = root.summary_archive.iter().filter(|id| !id.is_empty());
    let is_listed = |id: &&Vec<u8>| root.summary_archives.contains(id);
    for (index, id) in single.filter(|id| !is_listed(id)).chain(&root.summary_archives).enumerate()
    {
        let place = || format!("summary_archives[{index}]");
        if seen.insert(id) {
            archives.extend(notes.decode(blobs, id, BearsOn::History, &place)?);
        }
    }
    Ok(archives)
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    seen: HashSet<BlobId>,
    summaries: HashSet<BlobId>,
}

impl List {
    /// Adds a list of messages. It may begin with messages that are already listed: the system prompt, and the tail
    /// that a compaction kept. After the first new message, everything is new, because the user may say the same words
    /// again.
    fn append(&mut self, ids: &[Vec<u8>], place: impl Fn(usize) -> Place, notes: &mut Notes) {
        let mut is_repetition = !self.entries.is_empty();
        let before = if is_repetition { self.seen.clone() } else { HashSet::new() };
        for (index, bytes) in ids.iter().enumerate() {
            let place = place(index);
            let Some(id) = notes.id(bytes, place.bears_on(), &|| place.to_string()) else {
                continue;
            };
            if is_repetition && before.contains(&id) {
                continue;
            }
            // A new system prompt and new context come first. The summary comes between the kept messages and the new
            // ones.
            is_repetition &= index <= 1 || self.summaries.contains(&id);
            self.seen.insert(id);
            self.entries.push(Entry { content: EntryContent::Blob(id), place });
        }
    }

    fn append_summary(
        &mut self,
        index: usize,
        archive_id: BlobId,
        archive: &ConversationSummaryArchive,
        notes: &mut Notes,
    ) {
        let place = Place::ArchiveSummary(index);
        if archive.summary_message.is_empty() {
            if !archive.summary.is_empty() {
                let content =
                    EntryContent::Summary { archive: archive_id, text: archive.summary.clone() };
                self.entries.push(Entry { content, place });
            }
            return;
        }
        let id = notes.id(&archive.summary_message, BearsOn::History, &|| place.to_string());
        if let Some(id) = id.filter(|id| self.seen.insert(*id)) {
            self.summaries.insert(id);
            self.entries.push(Entry { content: EntryContent::Blob(id), place });
        }
    }
}

#[cfg(test)]
#[path = "prompt_list_tests.rs"]
mod tests;
