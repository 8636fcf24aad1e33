//! What every reader of a store can do.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use run_protocol::BytesPath;
use serde::Serialize;

use crate::model::{Conversation, Damage, Head, StoreKind};
use crate::raw_record::VisitRaw;
use crate::search::{Matcher, Snippet};

/// One place where Cursor keeps conversations. Reading it never changes it.
///
/// A conversation is named by its key: what its store calls it. See [`crate::model::Origin::key`].
pub trait ConversationStore: Send + Sync {
    fn kind(&self) -> StoreKind;

    /// The file or directory, as a user would name it.
    fn path(&self) -> &Path;

    /// Lists everything at once, and reads nothing that a list of thousands cannot afford.
    fn list(&self) -> Listing;

    /// Fills in what [`Self::list`] left out of a head because it costs opening a file. Called for what is shown only.
    fn complete(&self, head: &mut Head) {
        // Most stores know it all when they list.
        let _complete = head;
    }

    /// The models that are known to have answered, where neither a list nor [`Self::complete`] can afford to look for
    /// them.
    fn models(&self, key: &str) -> Vec<String> {
        let _known_already = key;
        Vec::new()
    }

    /// Reads one conversation.
    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError>;

    /// Calls `found` for everything that matches, from several threads and in no order, until it breaks. Reports what
    /// could not be searched.
    fn search(
        &self,
        matcher: &Matcher,
        found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Vec<Damage>;

    /// Calls `visit` with every record that the store keeps of a conversation, until it breaks. Of what was edited away or
    /// regenerated only on request, where that can be told apart.
    fn visit_raw(
        &self,
        key: &str,
        branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError>;

    /// Gives itself to an index, if it can be indexed. Others are fast enough without, or cannot tell what they hold.
    fn indexable(&self) -> Option<&dyn IndexableStore> {
        None
    }

    /// Tells apart states of a conversation without reading it: as long as it is the same, nothing changed. `None` if
    /// there is nothing now.
    fn stamp(&self, key: &str) -> Option<u64>;

    /// As [`Self::stamp`] of each. Where that would mean reading everything, a record that was changed in its place may
    /// be overlooked.
    fn stamps(&self, keys: &[&str]) -> Vec<Option<u64>> {
        keys.iter().map(|key| self.stamp(key)).collect()
    }

    /// The directories in which something changes when the conversation does; for `None`, those in which something
    /// changes when there is a new one. Not files: logs are deleted and made anew.
    fn watched(&self, key: Option<&str>) -> Vec<PathBuf>;

    /// Counts what is there by the store's own families of keys, and says which of them are used. Values are not read.
    fn account(&self) -> Account;
}

/// A store that is large, and can be searched in parts.
pub trait IndexableStore: ConversationStore {
    /// Tells apart states of the whole store: as long as it is the same, nothing changed.
    fn fingerprint(&self) -> Option<u64>;

    /// The parts as they are now. Those without content are left out.
    fn sections(&self) -> Result<Vec<Section>, ReadConversationError>;

    /// Calls `visit` with every record of a part.
    fn visit_section(
        &self,
        name: &str,
        visit: &mut dyn FnMut(&[u8], Encoding),
    ) -> Result<(), ReadConversationError>;

    /// As [`ConversationStore::search`], in these parts and in all that is in no part.
    fn search_sections(
        &self,
        names: &[String],
        matcher: &Matcher,
        found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Vec<Damage>;
}

/// A part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    /// Tells apart states of it.
    pub stamp: u64,
}

/// What a store holds.
#[derive(Debug, Default)]
pub struct Listing {
    pub heads: Vec<Head>,
    /// What could not be listed.
    pub damage: Vec<Damage>,
}

/// How much of a conversation to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Only the last so many messages, without a look at what is before them.
    pub last: Option<usize>,
    pub branches: Branches,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Branches {
    /// What the conversation is now.
    #[default]
    Current,
    /// Also what was edited away or regenerated, at the end, marked as such.
    WithOrphans,
}

/// Says why a conversation was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadConversationError {
    #[error("there is no such conversation in `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` cannot be read", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A place where a pattern was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The key of the conversation in its store. Empty if it belongs to none that is known.
    pub key: String,
    /// The store's own name of the message or row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The position among the messages of the conversation, from 0, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The field that holds it: `text`, `thinking.text`, `toolFormerData.result`, …
    pub field: String,
    pub snippet: Snippet,
}

/// What the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    /// Texts between bytes that are none, such as a message of protobuf.
    Bytes,
}

/// What was found at a place, so that "my chats are not listed" answers itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub n_conversations: u64,
    /// Listed on request only: sub-agents, empty ones, drafts, archived ones, by what they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub n_hidden: BTreeMap<String, u64>,
    /// Rows or files by family.
    pub families: Vec<Family>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
    /// An older copy that Cursor made, which can be read in its stead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<BytesPath>,
}

/// Rows or files of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Family {
    /// Such as `bubbleId:`, or `blobs`.
    pub name: String,
    pub n_rows: u64,
    pub treatment: Treatment,
}

/// What we do with the rows of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Read into conversations and searched.
    Read,
    /// Only counted.
    Counted,
    /// Credentials and settings: their values are never looked at.
    NeverRead,
}

/// What is at a place where a store may be.
pub enum Discovered {
    Store(Box<dyn ConversationStore>),
    Skipped(SkippedPlace),
}

/// A place that looks like a store and is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedPlace {
    pub store: StoreKind,
    pub path: BytesPath,
    /// As a clause without a full stop.
    pub why: String,
}
