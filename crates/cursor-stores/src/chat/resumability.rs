//! Whether a session can be resumed, or why not: the one place that decides.
//!
//! Cursor itself resumes with an empty conversation, and no error, where any of this is missing. Only the root, the ids
//! of its prompt messages and their presence are needed; the newest messages are also hashed, as far as a byte budget
//! goes, because damage is most often where something was written last. Hashing all is another, slower question.
//!
//! ```text
//!   before a run: `resume --check`, the API, the shim under the lease ─┐
//!   after a run: the checkpoint in the journal ────────────────────────┤
//!   `sessions verify`, beside what it hashes ──────────────────────────┼─► resume_point ─► ResumePoint, or NotResumable
//!   lists: `sessions ls`, `ps`, at a glance ───────────────────────────┘
//! ```

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ground::with_causes;
use prost::Message;
use serde::Serialize;

use super::ancestry::Ancestry;
use super::blob_id::BlobId;
use super::blobs::{Blobs, Fetched};
use super::chat_store::{ChatStore, OpenChatStoreError, ReadMetaError};
use super::integrity::LatestState;
use super::meta::{ChatMeta, LatestRoot};
use super::references::check_json_object;
use super::schema::ConversationStateStructure;
use crate::again::again_if;
use crate::plain_file::PlainFileError;
use crate::read_only_database::{OpenDatabaseError, ReadDatabaseError};

/// The agent can write its store, and a store can be made that takes for ever to read: pages of its tree may be shared,
/// so that a small file holds more rows than could be counted.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How much of the newest messages is hashed: more text than any model reads at once, in a hundredth of a second.
const HASHED_BYTES: u64 = 4 << 20;
/// The same for a session that is one of thousands.
const GLANCED_AT_BYTES: u64 = 256 << 10;
/// With less than this left, the rest is not worth looking for what might still fit.
const LEAST_BUDGET: u64 = 64 << 10;
/// SQLite may quote a hostile file in its messages.
const LONGEST_WHY: usize = 300;

/// How closely a session is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// For one session that is to be resumed. Takes twenty seconds at most.
    Whole,
    /// For a list of many: only the newest few messages are hashed.
    Glance,
}

/// What a resume would find.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumePoint {
    pub state: LatestState,
    /// What a root that continues this one must have.
    pub ancestry: Ancestry,
    /// How many of the messages were not hashed, the oldest ones.
    pub n_unhashed: usize,
}

/// A session that cannot be resumed: the reason, and what its store says all the same.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct Unresumable {
    pub reason: NotResumable,
    /// The checkpoint that the store leads to, if it names one.
    pub root: Option<BlobId>,
    /// What that checkpoint says, if it can be read.
    pub state: Option<LatestState>,
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
    #[error("the agent saved no conversation, so resuming would begin an empty one")]
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
    #[error("{n_missing} of the conversation's {n_messages} messages cannot be found in the store")]
    MessagesMissing { n_missing: usize, n_messages: usize, first: String },
    #[error(
        "{n_damaged} of the conversation's {n_messages} messages cannot be read: encrypted or damaged"
    )]
    MessagesDamaged { n_damaged: usize, n_messages: usize, first: String },
    #[error("it is a sub-agent's, and its parent `{parent}` continues it")]
    Subagent { parent: String },
    #[error("the session's store is open for writing in process {pid} ({program})")]
    HeldByProcess { pid: u32, program: String },
    #[error("the session's store could not be checked within {seconds} seconds")]
    TookTooLong { seconds: u64 },
    #[error("the check of the session's store failed")]
    CheckFailed,
}

impl NotResumable {
    /// Whether the conversation itself is missing or damaged. The other reasons depend on who asks, when, and on earlier runs.
    pub(crate) fn is_of_content(&self) -> bool {
        match self {
            Self::EmptyRoot
            | Self::MissingRoot { .. }
            | Self::RootHashMismatch { .. }
            | Self::RootUnreadable { .. }
            | Self::RootUndecodable { .. }
            | Self::MessagesMissing { .. }
            | Self::MessagesDamaged { .. } => true,
            Self::NoStore
            | Self::NotAPlainFile { .. }
            | Self::EmptyFile
            | Self::NotADatabase
            | Self::NotAChat
            | Self::Unreadable { .. }
            | Self::Changing
            | Self::NoMeta
            | Self::MetaUnreadable
            | Self::MalformedRoot
            | Self::CheckpointLost { .. }
            | Self::Diverged { .. }
            | Self::Subagent { .. }
            | Self::HeldByProcess { .. }
            | Self::TookTooLong { .. }
            | Self::CheckFailed => false,
        }
    }
}

impl NotResumable {
    /// Tells whether somebody else is busy with the session, so that it may be resumed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Changing | Self::HeldByProcess { .. })
    }
}

/// Looks at a store as a resume would find it. `recorded` is the root that was seen last: it must still be there, and the
/// conversation must continue it.
pub fn resume_point(
    store_db: &Path,
    recorded: Option<BlobId>,
    depth: Depth,
) -> Result<ResumePoint, Box<Unresumable>> {
    match depth {
        Depth::Glance => look_again_and_again(store_db, recorded, GLANCED_AT_BYTES),
        Depth::Whole => {
            let store_db = store_db.to_owned();
            within(TIME_LIMIT, move || look_again_and_again(&store_db, recorded, HASHED_BYTES))
        }
    }
}

type Looked = Result<ResumePoint, Box<Unresumable>>;

/// Looks in a thread of its own. A look that takes longer than `limit` is left behind in it.
fn within(limit: Duration, look: impl FnOnce() -> Looked + Send + 'static) -> Looked {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("resume point".to_owned());
    if let Err(error) = thread.spawn(move || sender.send(look()).ok()) {
        return Err(unreadable(&error).into());
    }
    match receiver.recv_timeout(limit) {
        Ok(looked) => looked,
        Err(RecvTimeoutError::Timeout) => {
            Err(NotResumable::TookTooLong { seconds: limit.as_secs() }.into())
        }
        Err(RecvTimeoutError::Disconnected) => Err(NotResumable::CheckFailed.into()),
    }
}

fn look_again_and_again(store_db: &Path, recorded: Option<BlobId>, budget: u64) -> Looked {
    let is_change = |err: &NotLooked| matches!(err, NotLooked::Changed);
    match again_if(is_change, || look(store_db, recorded, budget)) {
        Err(NotLooked::Changed) => Err(NotResumable::Changing.into()),
        Err(NotLooked::Because(mut refused)) => {
            refused.reason = since_the_last_run(refused.reason, recorded);
            Err(refused)
        }
        Ok(point) => Ok(point),
    }
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
    Because(Box<Unresumable>),
}

fn look(store_db: &Path, recorded: Option<BlobId>, budget: u64) -> Result<ResumePoint, NotLooked> {
    let store = ChatStore::open_read_only(store_db)?;
    let pointer = pointer(&store);
    if let Some(recorded) = recorded
        && store.at_once(|blobs| blobs.indexed_length(recorded))?.is_none()
    {
        let root = pointer.ok().map(|(_, root)| root);
        let found = root.map(|root| root.to_string());
        let reason = NotResumable::CheckpointLost { recorded: recorded.to_string(), found };
        return Err(Box::new(Unresumable { reason, root, state: None }).into());
    }
    let (meta, root) = pointer?;
    let mut state = None;
    let judged = store.at_once(|blobs| {
        let point = match read_root(blobs, root)? {
            Err(reason) => return Ok(Err(reason)),
            Ok(read) => {
                state = Some(LatestState::of(root, &read));
                judge(blobs, root, &read, budget)?
            }
        };
        match (point, recorded) {
            (Ok(point), Some(recorded)) if !continues(blobs, &point, recorded)? => {
                let (recorded, found) = (recorded.to_string(), root.to_string());
                Ok(Err(NotResumable::Diverged { recorded, found }))
            }
            (point, _) => Ok(point),
        }
    })?;
    let own = judged.and_then(|point| match meta.subagent_origin() {
        None => Ok(point),
        Some(origin) => {
            let unnamed = || "another conversation".to_owned();
            Err(NotResumable::Subagent { parent: origin.parent_agent_id.unwrap_or_else(unnamed) })
        }
    });
    Ok(own.map_err(|reason| Box::new(Unresumable { reason, root: Some(root), state }))?)
}

/// Reads the description of the session, and where it leads.
fn pointer(store: &ChatStore) -> Result<(ChatMeta, BlobId), NotLooked> {
    let meta = store.meta()?.ok_or(NotResumable::NoMeta)?;
    match meta.latest_root() {
        LatestRoot::Blob(root) => Ok((meta, root)),
        LatestRoot::Absent => Err(NotResumable::EmptyRoot.into()),
        LatestRoot::Malformed(_) => Err(NotResumable::MalformedRoot.into()),
    }
}

/// Whether the conversation has all that it had at `recorded`. A checkpoint that says nothing any more asks for nothing.
fn continues(blobs: &Blobs<'_>, point: &ResumePoint, recorded: BlobId) -> rusqlite::Result<bool> {
    if point.state.id == recorded {
        return Ok(true);
    }
    Ok(match read_root(blobs, recorded)? {
        Ok(state) => point.ancestry.extends(&Ancestry::of(blobs, &state)?),
        Err(_) => true,
    })
}

/// Reads a root that is what its name says.
pub(super) fn read_root(
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
        state: LatestState::of(root, state),
        ancestry: Ancestry::of(blobs, state)?,
        n_unhashed,
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

impl From<NotResumable> for Box<Unresumable> {
    fn from(reason: NotResumable) -> Self {
        Self::new(Unresumable { reason, root: None, state: None })
    }
}

impl From<Box<Unresumable>> for NotLooked {
    fn from(refused: Box<Unresumable>) -> Self {
        Self::Because(refused)
    }
}

impl From<NotResumable> for NotLooked {
    fn from(reason: NotResumable) -> Self {
        Self::Because(reason.into())
    }
}

impl From<OpenChatStoreError> for NotLooked {
    fn from(error: OpenChatStoreError) -> Self {
        use OpenDatabaseError::{Changing, Empty, File, NotADatabase};
        Self::from(match error {
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
    let why = with_causes(error).replace(char::is_control, " ");
    NotResumable::Unreadable { why: why.chars().take(LONGEST_WHY).collect() }
}

#[cfg(test)]
#[path = "resumability_tests.rs"]
mod tests;
