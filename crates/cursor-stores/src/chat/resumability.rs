//! Whether a session's store holds what a resume needs, or why not.
//!
//! Cursor itself resumes with an empty conversation, and no error, where any of this is missing. Only the root, the ids
//! of its prompt messages and their presence are needed; the newest messages are also hashed, as far as a byte budget
//! goes, because damage is most often where something was written last. Hashing all is another, slower question.

use std::path::Path;

use ground::with_causes;
use prost::Message;
use serde::Serialize;

use super::ancestry::Ancestry;
use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::chat_store::{ChatStore, OpenChatStoreError, ReadMetaError};
use super::meta::LatestRoot;
use super::pending::{PendingMessages, parse_pending};
use super::references::check_json_object;
use super::schema::ConversationStateStructure;
use crate::plain_file::PlainFileError;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError};

/// Somebody may write to the store while it is read.
const ATTEMPTS: usize = 3;
/// How much of the newest messages is hashed: more text than any model reads at once, in a hundredth of a second.
const HASHED_BYTES: u64 = 4 << 20;
/// The same for a session that is one of thousands.
const GLANCED_AT_BYTES: u64 = 256 << 10;
/// With less than this left, the rest is not worth looking for what might still fit.
const LEAST_BUDGET: u64 = 64 << 10;

/// What a resume would find.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumePoint {
    pub root: BlobId,
    pub n_messages: usize,
    pub n_turns: usize,
    /// What the agent was waiting for when it stopped. It will be told that it was interrupted.
    pub pending: PendingMessages,
    /// Where the conversation was held, as the root has it: `file://` addresses, the latest last.
    pub workspace_uris: Vec<String>,
    /// What a root that continues this one must have.
    pub ancestry: Ancestry,
    /// How many of the messages were not hashed, the oldest ones.
    pub n_unhashed: usize,
    /// Whose sub-agent this is. Such a conversation is its parent's to continue.
    pub parent_agent: Option<String>,
}

/// Why a store does not hold what a resume needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotResumable {
    #[error("the agent left no store for this session")]
    NoStore,
    #[error("the session's store is a {what}, not a plain file")]
    NotAPlainFile { what: String },
    #[error("the session's store is an empty file")]
    EmptyFile,
    #[error("the session's store is damaged or no database at all")]
    NotADatabase,
    #[error("the session's store does not have the tables of a chat")]
    NotAChat,
    #[error("the session's store cannot be read: {why}")]
    Unreadable { why: String },
    #[error("the session's store is being written by somebody else")]
    Changing,
    #[error("the session's store does not even describe the session")]
    NoMeta,
    #[error("the session's own description in its store is damaged")]
    MetaUnreadable,
    #[error("its latest checkpoint is of nothing, so resuming would begin an empty conversation")]
    EmptyRoot,
    #[error("the session's latest checkpoint has a malformed name")]
    MalformedRoot,
    #[error("the session's latest checkpoint is missing from its store")]
    MissingRoot { root: String },
    #[error("the session's latest checkpoint is encrypted or damaged")]
    RootHashMismatch { root: String },
    #[error("the session's latest checkpoint is too large or in a damaged part of its store")]
    RootUnreadable { root: String },
    #[error("the session's latest checkpoint cannot be decoded")]
    RootUndecodable { root: String },
    #[error(
        "the checkpoint that the last run left is gone from the store: its log was lost, or it is another store"
    )]
    CheckpointLost {
        recorded: String,
        /// What the store leads to instead, if anything.
        #[serde(skip_serializing_if = "Option::is_none")]
        found: Option<String>,
    },
    #[error("the store leads to another conversation than the one that the last run left")]
    Diverged { recorded: String, found: String },
    #[error("of the conversation's {n_messages} messages {n_missing} are missing from the store")]
    MessagesMissing { n_missing: usize, n_messages: usize, first: String },
    #[error("of the conversation's {n_messages} messages {n_damaged} are encrypted or damaged")]
    MessagesDamaged { n_damaged: usize, n_messages: usize, first: String },
}

/// Looks at a store as a resume would find it. `recorded` is the root that was seen last: it must still be there, and the
/// conversation must continue it.
pub fn resume_point(
    store_db: &Path,
    recorded: Option<BlobId>,
) -> Result<ResumePoint, NotResumable> {
    look_again_and_again(store_db, recorded, HASHED_BYTES)
}

/// As [`resume_point`], with only the newest few messages hashed: for lists of many sessions.
pub fn resume_point_at_a_glance(
    store_db: &Path,
    recorded: Option<BlobId>,
) -> Result<ResumePoint, NotResumable> {
    look_again_and_again(store_db, recorded, GLANCED_AT_BYTES)
}

fn look_again_and_again(
    store_db: &Path,
    recorded: Option<BlobId>,
    budget: u64,
) -> Result<ResumePoint, NotResumable> {
    for _ in 0..ATTEMPTS {
        match look(store_db, recorded, budget) {
            Err(NotLooked::Changed) => {}
            Err(NotLooked::Because(reason)) => return Err(since_the_last_run(reason, recorded)),
            Ok(point) => return Ok(point),
        }
    }
    Err(NotResumable::Changing)
}

/// A store that had a conversation and has not even its tables has lost them with its log: a young one is all log.
fn since_the_last_run(reason: NotResumable, recorded: Option<BlobId>) -> NotResumable {
    match (reason, recorded) {
        (NotResumable::NotAChat, Some(recorded)) => {
            NotResumable::CheckpointLost { recorded: recorded.to_string(), found: None }
        }
        (reason, _) => reason,
    }
}

enum NotLooked {
    Changed,
    Because(NotResumable),
}

fn look(store_db: &Path, recorded: Option<BlobId>, budget: u64) -> Result<ResumePoint, NotLooked> {
    let store = ChatStore::open_read_only(store_db)?;
    let meta = store.meta()?.ok_or(NotResumable::NoMeta)?;
    let root = match meta.latest_root() {
        LatestRoot::Blob(id) => id,
        LatestRoot::Absent => return Err(NotResumable::EmptyRoot.into()),
        LatestRoot::Malformed(_) => return Err(NotResumable::MalformedRoot.into()),
    };
    let judged = store.at_once(|blobs| {
        let is_lost = |id: &BlobId| blobs.indexed_length(*id).map(|length| length.is_none());
        if let Some(recorded) = recorded
            && is_lost(&recorded)?
        {
            let (recorded, found) = (recorded.to_string(), Some(root.to_string()));
            return Ok(Err(NotResumable::CheckpointLost { recorded, found }));
        }
        let point = match read_root(blobs, root)? {
            Err(reason) => return Ok(Err(reason)),
            Ok(state) => judge(blobs, root, &state, budget)?,
        };
        match (point, recorded) {
            (Ok(point), Some(recorded)) if !continues(blobs, &point, recorded)? => {
                let (recorded, found) = (recorded.to_string(), root.to_string());
                Ok(Err(NotResumable::Diverged { recorded, found }))
            }
            (point, _) => Ok(point),
        }
    })?;
    let parent_agent = meta
        .subagent_origin()
        .map(|origin| origin.parent_agent_id.unwrap_or_else(|| "another conversation".to_owned()));
    Ok(ResumePoint { parent_agent, ..judged? })
}

/// Whether the conversation has all that it had at `recorded`. A checkpoint that says nothing any more asks for nothing.
fn continues(blobs: &Blobs<'_>, point: &ResumePoint, recorded: BlobId) -> rusqlite::Result<bool> {
    if point.root == recorded {
        return Ok(true);
    }
    Ok(match read_root(blobs, recorded)? {
        Ok(state) => point.ancestry.extends(&Ancestry::of(blobs, &state)?),
        Err(_) => true,
    })
}

/// Reads a root that is what its name says.
fn read_root(
    blobs: &Blobs<'_>,
    root: BlobId,
) -> rusqlite::Result<Result<ConversationStateStructure, NotResumable>> {
    let name = || root.to_string();
    Ok(match blobs.get_by_index(root)? {
        Fetched::Missing => Err(NotResumable::MissingRoot { root: name() }),
        Fetched::TooLarge { .. } | Fetched::Unreadable => {
            Err(NotResumable::RootUnreadable { root: name() })
        }
        Fetched::Data(data) if BlobId::of(&data) != root => {
            Err(NotResumable::RootHashMismatch { root: name() })
        }
        Fetched::Data(data) => ConversationStateStructure::decode(data.as_slice())
            .map_err(|_| NotResumable::RootUndecodable { root: name() }),
    })
}

fn judge(
    blobs: &Blobs<'_>,
    root: BlobId,
    state: &ConversationStateStructure,
    mut budget: u64,
) -> rusqlite::Result<Result<ResumePoint, NotResumable>> {
    let n_messages = state.root_prompt_messages_json.len();
    let n_turns = state.turns.len() + state.turns_old.len();
    let has_archives = !state.summary_archives.is_empty() || state.summary_archive.is_some();
    if n_messages == 0 && n_turns == 0 && !has_archives {
        return Ok(Err(NotResumable::EmptyRoot));
    }
    let mut missing = Bad::default();
    let mut damaged = Bad::default();
    let mut n_unhashed = 0;
    let mut only_present = Vec::new();
    for raw in state.root_prompt_messages_json.iter().rev() {
        let Ok(id) = BlobId::try_from(raw.as_slice()) else {
            damaged.add("a reference that is no blob id".to_owned());
            continue;
        };
        if budget < LEAST_BUDGET {
            only_present.push(id);
            continue;
        }
        let Some(length) = blobs.indexed_length(id)? else {
            missing.add(id.to_string());
            continue;
        };
        match budget.checked_sub(length.try_into().unwrap_or(u64::MAX)) {
            None => n_unhashed += 1,
            Some(rest) => {
                budget = rest;
                let is_whole = match blobs.get_by_index(id)? {
                    Fetched::Data(data) => {
                        BlobId::of(&data) == id && check_json_object(&data).is_ok()
                    }
                    _ => false,
                };
                if !is_whole {
                    damaged.add(id.to_string());
                }
            }
        }
    }
    n_unhashed += only_present.len();
    // In the order of the index: neighbours are on one page.
    only_present.sort_unstable();
    for id in only_present {
        if !blobs.is_indexed(id)? {
            missing.add(id.to_string());
        }
    }
    if let Some(first) = missing.first {
        return Ok(Err(NotResumable::MessagesMissing { n_missing: missing.n, n_messages, first }));
    }
    if let Some(first) = damaged.first {
        return Ok(Err(NotResumable::MessagesDamaged { n_damaged: damaged.n, n_messages, first }));
    }
    Ok(Ok(ResumePoint {
        root,
        n_messages,
        n_turns,
        pending: parse_pending(&state.pending_tool_calls),
        workspace_uris: state.previous_workspace_uris.clone(),
        ancestry: Ancestry::of(blobs, state)?,
        n_unhashed,
        parent_agent: None,
    }))
}

/// Messages that will not do: how many, and one of them.
#[derive(Default)]
struct Bad {
    n: usize,
    first: Option<String>,
}

impl Bad {
    fn add(&mut self, name: String) {
        self.n += 1;
        self.first.get_or_insert(name);
    }
}

impl From<NotResumable> for NotLooked {
    fn from(reason: NotResumable) -> Self {
        Self::Because(reason)
    }
}

impl From<OpenChatStoreError> for NotLooked {
    fn from(error: OpenChatStoreError) -> Self {
        use OpenDatabaseError::{Changing, Empty, File, NotADatabase};
        Self::Because(match error {
            OpenChatStoreError::Read(error) => return error.into(),
            OpenChatStoreError::NotAChat { .. } => NotResumable::NotAChat,
            OpenChatStoreError::Database(Changing) => return Self::Changed,
            OpenChatStoreError::Database(Empty) => NotResumable::EmptyFile,
            OpenChatStoreError::Database(NotADatabase) => NotResumable::NotADatabase,
            OpenChatStoreError::Database(File(PlainFileError::Missing { .. })) => {
                NotResumable::NoStore
            }
            OpenChatStoreError::Database(File(PlainFileError::NotPlain { kind, .. })) => {
                NotResumable::NotAPlainFile { what: kind.to_owned() }
            }
            OpenChatStoreError::Database(error) => unreadable(&error),
        })
    }
}

impl From<ReadMetaError> for NotLooked {
    fn from(error: ReadMetaError) -> Self {
        match error {
            ReadMetaError::Database(error) => error.into(),
            ReadMetaError::TooLarge { .. } | ReadMetaError::Content(_) => {
                NotResumable::MetaUnreadable.into()
            }
        }
    }
}

impl From<ReadDatabaseError> for NotLooked {
    fn from(error: ReadDatabaseError) -> Self {
        match error {
            ReadDatabaseError::Changed => Self::Changed,
            error if error.is_damage() => NotResumable::NotADatabase.into(),
            error => unreadable(&error).into(),
        }
    }
}

fn unreadable(error: &dyn std::error::Error) -> NotResumable {
    // What SQLite says of a hostile file may quote the file.
    NotResumable::Unreadable { why: with_causes(error).replace(char::is_control, " ") }
}

#[cfg(test)]
#[path = "resumability_tests.rs"]
mod tests;
