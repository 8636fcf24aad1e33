//! Can a session be resumed, and if not, why? Only this module decides.
//!
//! If any of this is missing, Cursor itself resumes with an empty conversation, and reports no error. A resume needs
//! only the root and its prompt messages. The check also hashes the newest messages, up to a byte budget, because the
//! newest writes are the most likely to be damaged. `sessions verify` hashes everything.
//!
//! ```text
//!   before a run: `resume --check`, the API, the shim under the lease ─┐
//!   after a run: the checkpoint in the journal ────────────────────────┤
//!   `sessions verify`, which also hashes everything ───────────────────┼─► resume_point ─► ResumePoint, or NotResumable
//!   lists: `sessions ls`, `ps`, at a glance ───────────────────────────┘
//! ```

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ground::with_causes;
use serde::Serialize;

use super::ancestry::Ancestry;
use super::integrity::LatestState;
use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::check_json_object;
use crate::chat::store::{
    BlobId, Blobs, ChatMeta, ChatStore, ChatStoreError, LatestRoot, RootProblem,
};
use crate::database::again::again_if;
use crate::database::{OpenDatabaseError, ReadDatabaseError};
use crate::plain_file::PlainFileError;

/// The agent can write a store that takes forever to read: pages of its tree may be shared, so a small file can have
/// more rows than anyone can count.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How many bytes of the newest messages to hash: more than any model reads at once, but hashed in a hundredth of a
/// second.
const HASHED_BYTES: u64 = 4 << 20;
/// The same for one session in a list of thousands.
const GLANCE_BYTES: u64 = 256 << 10;
/// No more messages are hashed when less than this is left of the budget.
const LEAST_BUDGET: u64 = 64 << 10;
/// SQLite may quote a hostile file in its messages.
const LONGEST_WHY: usize = 300;

/// How closely to check a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// For one session that a user wants to resume. Takes twenty seconds at most.
    Whole,
    /// For a list of many: hashes only the newest few messages.
    Glance,
}

/// The conversation that a resume would continue.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumePoint {
    pub state: LatestState,
    /// The ancestry that a later root must extend.
    pub ancestry: Ancestry,
    /// How many messages were not hashed. These are the oldest.
    pub n_unhashed: usize,
}

/// A session that cannot be resumed: the reason, and everything that its store still says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct Unresumable {
    pub reason: NotResumable,
    /// The checkpoint that the store names.
    pub root: Option<BlobId>,
    /// The content of that checkpoint, if it can be read.
    pub state: Option<LatestState>,
}

/// Why a session cannot be resumed.
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
    #[error("the session's store is damaged, or not a database at all")]
    NotADatabase,
    #[error("the session's store does not have the tables of a chat")]
    NotAChat,
    #[error("the session's store cannot be read: {why}")]
    Unreadable { why: String },
    #[error("another process is writing to the session's store")]
    Changing,
    #[error("the session's store has no description of the session")]
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
        "the checkpoint that the last run left is gone from the store: its log was lost, or this is a different store"
    )]
    CheckpointLost {
        recorded: String,
        /// The checkpoint that the store names instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        found: Option<String>,
    },
    #[error("the store's conversation does not continue the last run's")]
    Diverged { recorded: String, found: String },
    #[error("{n_missing} of the conversation's {n_messages} messages cannot be found in the store")]
    MessagesMissing { n_missing: usize, n_messages: usize, first: String },
    #[error(
        "{n_damaged} of the conversation's {n_messages} messages cannot be read: encrypted or damaged"
    )]
    MessagesDamaged { n_damaged: usize, n_messages: usize, first: String },
    #[error("the session belongs to a sub-agent; its parent `{parent}` continues it")]
    Subagent { parent: String },
    #[error("the session's store is open for writing in process {pid} ({program})")]
    HeldByProcess { pid: u32, program: String },
    #[error("the session's store could not be checked within {seconds} seconds")]
    TookTooLong { seconds: u64 },
    #[error("the check of the session's store failed")]
    CheckFailed,
}

impl NotResumable {
    /// True if the conversation itself is missing or damaged. Other reasons depend on the caller, the time, and earlier
    /// runs.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::EmptyRoot
                | Self::MissingRoot { .. }
                | Self::RootHashMismatch { .. }
                | Self::RootUnreadable { .. }
                | Self::RootUndecodable { .. }
                | Self::MessagesMissing { .. }
                | Self::MessagesDamaged { .. }
        )
    }

    /// True if another process is busy with the session. It may be resumable later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Changing | Self::HeldByProcess { .. })
    }
}

/// Checks a store as a resume would find it. `recorded` is the last known root: it must still exist, and the
/// conversation must continue it.
pub fn resume_point(
    store_db: &Path,
    recorded: Option<BlobId>,
    depth: Depth,
) -> Result<ResumePoint, Box<Unresumable>> {
    match depth {
        Depth::Glance => check_until_unchanged(store_db, recorded, GLANCE_BYTES),
        Depth::Whole => {
            let store_db = store_db.to_owned();
            within(TIME_LIMIT, move || check_until_unchanged(&store_db, recorded, HASHED_BYTES))
        }
    }
}

type Checked = Result<ResumePoint, Box<Unresumable>>;

/// Checks in a separate thread. A check that takes longer than `limit` is left running in its thread.
fn within(limit: Duration, check: impl FnOnce() -> Checked + Send + 'static) -> Checked {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("resume point".to_owned());
    if let Err(error) = thread.spawn(move || sender.send(check()).ok()) {
        return Err(unreadable(&error).into());
    }
    match receiver.recv_timeout(limit) {
        Ok(checked) => checked,
        Err(RecvTimeoutError::Timeout) => {
            Err(NotResumable::TookTooLong { seconds: limit.as_secs() }.into())
        }
        Err(RecvTimeoutError::Disconnected) => Err(NotResumable::CheckFailed.into()),
    }
}

fn check_until_unchanged(store_db: &Path, recorded: Option<BlobId>, budget: u64) -> Checked {
    let is_change = |err: &CheckError| matches!(err, CheckError::Changed);
    match again_if(is_change, || check(store_db, recorded, budget)) {
        Err(CheckError::Changed) => Err(NotResumable::Changing.into()),
        Err(CheckError::Because(mut refused)) => {
            refused.reason = since_the_last_run(refused.reason, recorded);
            Err(refused)
        }
        Ok(point) => Ok(point),
    }
}

/// All data of a new store is in its log. If a store had a conversation and now has no tables, its log was lost.
fn since_the_last_run(reason: NotResumable, recorded: Option<BlobId>) -> NotResumable {
    match (reason, recorded) {
        (NotResumable::NotAChat, Some(recorded)) => {
            NotResumable::CheckpointLost { recorded: recorded.to_string(), found: None }
        }
        (reason, _) => reason,
    }
}

enum CheckError {
    Changed,
    Because(Box<Unresumable>),
}

fn check(
    store_db: &Path,
    recorded: Option<BlobId>,
    budget: u64,
) -> Result<ResumePoint, CheckError> {
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

/// Reads the meta row and its pointer to the root.
fn pointer(store: &ChatStore) -> Result<(ChatMeta, BlobId), CheckError> {
    let meta = store.meta()?.ok_or(NotResumable::NoMeta)?;
    match meta.latest_root() {
        LatestRoot::Blob(root) => Ok((meta, root)),
        LatestRoot::Absent => Err(NotResumable::EmptyRoot.into()),
        LatestRoot::Malformed(_) => Err(NotResumable::MalformedRoot.into()),
    }
}

/// True if the conversation has all messages that it had at `recorded`. Also true if that root cannot be read.
fn continues(blobs: &Blobs<'_>, point: &ResumePoint, recorded: BlobId) -> rusqlite::Result<bool> {
    if point.state.id == recorded {
        return Ok(true);
    }
    Ok(match read_root(blobs, recorded)? {
        Ok(state) => point.ancestry.extends(&Ancestry::of(blobs, &state)?),
        Err(_) => true,
    })
}

/// Reads a root, if its hash is its id.
fn read_root(
    blobs: &Blobs<'_>,
    root: BlobId,
) -> rusqlite::Result<Result<ConversationStateStructure, NotResumable>> {
    let name = root.to_string();
    Ok(blobs.get_by_index(root)?.state(root).map_err(|problem| match problem {
        RootProblem::Missing => NotResumable::MissingRoot { root: name },
        RootProblem::HashMismatch => NotResumable::RootHashMismatch { root: name },
        RootProblem::Unreadable => NotResumable::RootUnreadable { root: name },
        RootProblem::Undecodable(_) => NotResumable::RootUndecodable { root: name },
    }))
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
            damaged.add("a reference that is not a blob id".to_owned());
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
                let data = blobs.get_by_index(id)?.intact(id);
                if data.is_none_or(|data| check_json_object(&data).is_err()) {
                    damaged.add(id.to_string());
                }
            }
        }
    }
    n_unhashed += only_present.len();
    // In index order, because neighbours share a page.
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

/// Missing or damaged messages: their number, and the first one.
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

impl From<Box<Unresumable>> for CheckError {
    fn from(refused: Box<Unresumable>) -> Self {
        Self::Because(refused)
    }
}

impl From<NotResumable> for CheckError {
    fn from(reason: NotResumable) -> Self {
        Self::Because(reason.into())
    }
}

impl From<ChatStoreError> for CheckError {
    fn from(error: ChatStoreError) -> Self {
        use ChatStoreError::{Database, Meta, MetaTooLarge, NotAChat, Read};
        use OpenDatabaseError::{Changing, Empty, File, NotADatabase};
        Self::from(match error {
            Read(error) => return error.into(),
            Database(Changing) => return Self::Changed,
            NotAChat { .. } => NotResumable::NotAChat,
            MetaTooLarge { .. } | Meta(_) => NotResumable::MetaUnreadable,
            Database(Empty) => NotResumable::EmptyFile,
            Database(NotADatabase) => NotResumable::NotADatabase,
            Database(File(PlainFileError::Missing { .. })) => NotResumable::NoStore,
            Database(File(PlainFileError::NotPlain { kind, .. })) => {
                NotResumable::NotAPlainFile { what: kind.to_owned() }
            }
            Database(error) => unreadable(&error),
        })
    }
}

impl From<ReadDatabaseError> for CheckError {
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
