//! Reads a conversation back, as tolerantly as Cursor: an unreadable conversation counts as empty.

use cursor_stores::chat::schema::{ConversationStateStructure, ConversationSummaryArchive};
use cursor_stores::chat::{BlobId, ChatMeta, LatestRoot, WritableStore};
use prost::Message;
use serde_json::Value;

/// The state of the latest root, and the messages of its field 1, in the same order.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) root: ConversationStateStructure,
    pub(super) messages: Vec<Value>,
    /// A message that the prompt needs and the store lacks. The session opens, but every turn fails.
    pub(super) hole: Option<BlobId>,
}

impl Conversation {
    /// A missing root, an unknown one and one that does not decode all mean an empty conversation.
    pub(super) fn read(database: &WritableStore, meta: &ChatMeta) -> Self {
        read_root(database, meta).map(|root| Self::of_root(database, root)).unwrap_or_default()
    }

    fn of_root(database: &WritableStore, root: ConversationStateStructure) -> Self {
        let mut messages = Vec::new();
        let mut hole = None;
        for id in ids(&root.root_prompt_messages_json) {
            match read_message(database, id) {
                Some(message) => messages.push(message),
                None => hole = hole.or(Some(id)),
            }
        }
        Self { root, messages, hole }
    }

    pub(super) fn push(&mut self, id: BlobId, message: Value) {
        self.root.root_prompt_messages_json.push(id.to_vec());
        self.messages.push(message);
    }

    /// Estimates how much of the context window the prompt takes.
    pub(super) fn context_tokens(&self) -> u32 {
        /// Instructions and tool descriptions, which are not in the store.
        const UNSEEN: usize = 12_000;
        const CHARACTERS_PER_TOKEN: usize = 4;
        let characters: usize = self.messages.iter().map(|message| message.to_string().len()).sum();
        u32::try_from(UNSEEN + characters / CHARACTERS_PER_TOKEN).unwrap_or(u32::MAX)
    }

    /// Returns the messages that compactions took out of the prompt, oldest first.
    pub(super) fn archived_messages(&self, database: &WritableStore) -> Vec<Value> {
        ids(&self.root.summary_archives)
            .filter_map(|id| database.blob(id).ok()?)
            .filter_map(|data| ConversationSummaryArchive::decode(data.as_slice()).ok())
            .flat_map(|archive| ids(&archive.summarized_messages).collect::<Vec<_>>())
            .filter_map(|id| read_message(database, id))
            .collect()
    }
}

fn read_root(database: &WritableStore, meta: &ChatMeta) -> Option<ConversationStateStructure> {
    let LatestRoot::Blob(id) = meta.latest_root() else { return None };
    let data = database.blob(id).ok()??;
    ConversationStateStructure::decode(data.as_slice()).ok()
}

fn read_message(database: &WritableStore, id: BlobId) -> Option<Value> {
    serde_json::from_slice(&database.blob(id).ok()??).ok()
}

pub(super) fn ids(raw: &[Vec<u8>]) -> impl Iterator<Item = BlobId> {
    raw.iter().filter_map(|id| BlobId::try_from(id.as_slice()).ok())
}
