//! What every reader of a store can do.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use run_protocol::BytesPath;
use serde::Serialize;

use crate::model::{Conversation, Damage, Head, StoreKind};
use crate::search::{FieldMatch, Matcher, Snippet, search_bytes, search_json};

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

    /// Reads one conversation.
    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError>;

    /// Calls `found` for everything that matches, from several threads and in no order, until it breaks. Reports what
    /// could not be searched.
    fn search(
        &self,
        matcher: &Matcher,
        found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
    ) -> Vec<Damage>;

    /// Gives itself to an index, if it can be indexed. Others are fast enough without, or cannot tell what they hold.
    fn indexable(&self) -> Option<&dyn IndexableStore> {
        None
    }

    /// Tells apart states of a conversation without reading it: as long as it is the same, nothing changed. `None` if
    /// there is nothing now.
    fn stamp(&self, key: &str) -> Option<u64>;

    /// The directories in which something changes when the conversation does, or any conversation for `None`. Not
    /// files: logs are deleted and made anew.
    fn watched(&self, key: Option<&str>) -> Vec<PathBuf>;

    /// Counts what is there by the store's own families of keys, and says which of them are used. Values are not read.
    fn account(&self) -> Account;
}

/// A store that can say, for each conversation, everything that a search looks through.
pub trait IndexableStore: ConversationStore {
    /// Calls `visit` with everything that [`ConversationStore::search`] looks through for one conversation, as the store
    /// has it, until it breaks. The empty key stands for what belongs to no conversation. Credentials are never among it.
    fn records(
        &self,
        key: &str,
        visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadConversationError>;

    /// Tells apart states of the whole store: as long as it is the same, nothing changed.
    fn fingerprint(&self) -> Option<u64>;
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

/// A row, a line or a file of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The store's own name of the message or row.
    pub id: Option<&'a str>,
    /// The position among the messages of the conversation, from 0, where that is known.
    pub position: Option<usize>,
    /// Stands before the names of fields: `agentKv`, `composerData`; may be empty.
    pub family: &'a str,
    pub content: &'a [u8],
    pub encoding: Encoding,
}

/// What the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Text,
    /// Texts between bytes that are none, such as a message of protobuf.
    Bytes,
}

impl Record<'_> {
    /// Looks for the pattern in it.
    #[must_use]
    pub fn search(&self, matcher: &Matcher) -> Option<FieldMatch> {
        let found = match self.encoding {
            Encoding::Json => search_json(matcher, self.content)?,
            Encoding::Text | Encoding::Bytes => search_bytes(matcher, "", self.content)?,
        };
        let field = match (self.family, found.field.as_str()) {
            (family, "") => family.to_owned(),
            ("", field) => field.to_owned(),
            (family, field) => format!("{family}.{field}"),
        };
        Some(FieldMatch { field, ..found })
    }
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
