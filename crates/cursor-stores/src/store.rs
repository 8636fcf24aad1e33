//! The interface that every reader of a store implements.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use run_protocol::BytesPath;
use serde::Serialize;

use crate::model::{Conversation, Damage, Head, Shelf, StoreKind};
use crate::raw_record::VisitRaw;
use crate::search::{Matcher, Snippet};

/// One place where Cursor keeps conversations. Reading it never changes it.
///
/// A conversation's key is its name in its store. See [`crate::model::Origin::key`].
pub trait ConversationStore: Send + Sync {
    fn kind(&self) -> StoreKind;

    /// The file or directory, as a user would name it.
    fn path(&self) -> &Path;

    /// Lists all conversations. Reads nothing that would make a list of thousands slow.
    fn list(&self) -> Listing;

    /// Fills in what [`Self::list`] left out of a head because it would have to open a file. Only for heads that are
    /// shown.
    fn complete(&self, _head: &mut Head) {
        // Most stores already know everything when they list.
    }

    /// Returns the models that answered, if finding them is too slow for both [`Self::list`] and [`Self::complete`].
    fn models(&self, _key: &str) -> Vec<String> {
        Vec::new()
    }

    /// Reads one conversation.
    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError>;

    /// Calls `found` for every match, from several threads and in no particular order, until it returns `Break`.
    /// Returns the parts that it could not search.
    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage>;

    /// Calls `visit` with every record that the store keeps for a conversation, until it returns `Break`. `branches`
    /// says whether to include records that the user edited away, if the store can tell them apart.
    fn visit_raw(
        &self,
        key: &str,
        branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError>;

    /// Returns the store if an index can cover it. `None` for stores that are fast enough without an index.
    fn indexable(&self) -> Option<&dyn IndexableStore> {
        None
    }

    /// Returns a number that changes with the conversation, without reading it. `None` if the conversation is gone.
    fn stamp(&self, key: &str) -> Option<u64>;

    /// Calls [`Self::stamp`] for each key. To avoid reading everything, a store may miss a record that changed in
    /// place.
    fn stamps(&self, keys: &[&str]) -> Vec<Option<u64>> {
        keys.iter().map(|key| self.stamp(key)).collect()
    }

    /// Returns the directories that change when the conversation changes. For `None`, those where a new conversation
    /// would appear. Never files, because SQLite deletes its logs and creates new ones.
    fn watched(&self, key: Option<&str>) -> Vec<PathBuf>;

    /// Counts rows by the store's own key families, and says which families are read. Does not read values.
    fn account(&self) -> Account;
}

/// A large store that can be searched in parts.
pub trait IndexableStore: ConversationStore {
    /// Returns a number that changes whenever anything in the store changes.
    fn fingerprint(&self) -> Option<u64>;

    /// Returns the current parts, without the empty ones.
    fn sections(&self) -> Result<Vec<Section>, ReadConversationError>;

    /// Calls `visit` with every record of a part.
    fn visit_section(
        &self,
        name: &str,
        visit: &mut dyn FnMut(&[u8], Encoding),
    ) -> Result<(), ReadConversationError>;

    /// Like [`ConversationStore::search`], but only in these parts and in everything that belongs to no part.
    fn search_sections(&self, names: &[String], matcher: &Matcher, found: Found<'_>)
    -> Vec<Damage>;
}

/// A part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    /// Changes with the content of the part.
    pub stamp: u64,
}

/// The conversations of a store.
#[derive(Debug, Default)]
pub struct Listing {
    pub heads: Vec<Head>,
    /// The parts that could not be listed.
    pub damage: Vec<Damage>,
}

/// How much of a conversation to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Read only this many messages, from the end.
    pub last: Option<usize>,
    pub branches: Branches,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Branches {
    /// The conversation in its current form.
    #[default]
    Current,
    /// Also messages that were edited away or regenerated: at the end, and marked as orphans.
    WithOrphans,
}

/// Says why a conversation could not be read.
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

impl ReadConversationError {
    pub(crate) fn unreadable(
        path: impl Into<PathBuf>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unreadable { path: path.into(), source: source.into() }
    }
}

impl Extent {
    /// Keeps only the last `self.last` messages, if that is set.
    pub(crate) fn cut<T>(self, messages: &mut Vec<T>) {
        if let Some(last) = self.last {
            messages.drain(..messages.len().saturating_sub(last));
        }
    }
}

/// Gets each match of a search, from several threads, until it returns `Break`.
pub type Found<'a> = &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync);

/// A match of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The key of the conversation in its store. Empty if no known conversation owns the match.
    pub key: String,
    /// The store's own name for the message or row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The position among the messages of the conversation, from 0, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The field with the match: `text`, `thinking.text`, `toolFormerData.result`, …
    pub field: String,
    pub snippet: Snippet,
}

/// The format of a record's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    /// Text mixed with other bytes, such as a protobuf message.
    Bytes,
}

/// The store's content in numbers, so that a user can see why a chat is not listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub n_conversations: u64,
    /// The number of conversations that lists hide by default, by reason: sub-agents, empty, drafts, archived.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub n_hidden: BTreeMap<String, u64>,
    /// Rows or files by family.
    pub families: Vec<Family>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
    /// An older copy that Cursor made. A user can read it instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<BytesPath>,
}

impl Account {
    /// Counts the conversations, and the hidden ones by the reason why lists hide them.
    pub(crate) fn count(&mut self, heads: &[Head]) {
        for head in heads {
            match head.shelf {
                _ if head.parent.is_some() => self.hide("sub-agents"),
                Shelf::Archived => self.hide("archived"),
                Shelf::Draft => self.hide("drafts"),
                Shelf::Empty => self.hide("empty"),
                Shelf::Shown => self.n_conversations += 1,
            }
        }
    }

    pub(crate) fn hide(&mut self, reason: &str) {
        *self.n_hidden.entry(reason.to_owned()).or_default() += 1;
    }

    /// Adds a family, unless it has no rows.
    pub(crate) fn add_family(&mut self, name: &str, n_rows: u64, treatment: Treatment) {
        if n_rows > 0 {
            self.families.push(Family { name: name.to_owned(), n_rows, treatment });
        }
    }
}

/// Rows or files of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Family {
    /// For example `bubbleId:` or `blobs`.
    pub name: String,
    pub n_rows: u64,
    pub treatment: Treatment,
}

/// The way this crate treats the rows of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Read into conversations and searched.
    Read,
    /// Only counted.
    Counted,
    /// Credentials and settings. This crate never reads their values.
    NeverRead,
}

/// The result of looking at a place where a store may be.
pub enum Discovered {
    Store(Box<dyn ConversationStore>),
    Skipped(SkippedPlace),
}

/// A place that looks like a store but is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedPlace {
    pub store: StoreKind,
    pub path: BytesPath,
    /// A clause without a full stop.
    pub why: String,
}
