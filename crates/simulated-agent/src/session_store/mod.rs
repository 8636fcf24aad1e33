//! A session on disk, written and read like cursor-agent's: `store.db`, and `meta.json` next to it.
//!
//! **Invariant:** every statement commits separately, in the order of a real store. The writer announces a
//! [`CrashPoint`] wherever a killed process would leave different files behind.

mod compaction;
mod crash_point;
mod messages;
mod prompt;
mod recent;
mod records;
mod restore;
mod side_state;
mod tool_steps;
mod writer;

use std::path::{Path, PathBuf};
use std::{fs, io};

use cursor_home::{SessionDir, WorkspacePath};
use cursor_stores::chat::{
    BlobEncryptionKey, BlobId, ChatMeta, LatestRoot, SessionMetaFile, WritableStore,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use crash_point::CrashPoint;
pub use recent::recent_sessions;
pub use records::{
    Closing, PendingCall, RememberedMessage, Role, SessionFacts, SessionMode, ToolCallRecord,
    ToolResultRecord,
};

use crate::tools::{Generation, TodoItem};
use restore::Conversation;
use writer::OpenTurn;

/// One session of one workspace. Until its first prompt there is no database.
pub struct SessionStore {
    directory: SessionDir,
    workspace: PathBuf,
    facts: SessionFacts,
    database: Option<WritableStore>,
    meta: ChatMeta,
    /// Builds from early 2026 have none.
    meta_file: Option<SessionMetaFile>,
    conversation: Conversation,
    history: Vec<RememberedMessage>,
    pending: Vec<PendingCall>,
    turn: Option<OpenTurn>,
    crash_hook: Box<dyn Fn(CrashPoint) + Send>,
}

/// Why a session could not be opened, written or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    #[error("cannot use the session's files in `{}`", .path.display())]
    Files { path: PathBuf, source: io::Error },
    #[error("cannot use the session's store.db")]
    Database(#[from] rusqlite::Error),
    /// The prompt needs this message. Cursor's server answers such a turn with an error.
    #[error("blob not found: {id}")]
    BlobNotFound { id: BlobId },
    #[error("no turn is open")]
    NoTurn,
}

impl SessionStore {
    /// Opens a session in the bucket of this workspace, or begins one under that id.
    ///
    /// An unreadable conversation counts as an empty one, and the agent says nothing about it.
    pub fn open(
        bucket: &Path,
        workspace: &WorkspacePath,
        session_id: Uuid,
        facts: SessionFacts,
    ) -> Result<Self, SessionError> {
        let directory = SessionDir::at(bucket.join(session_id.to_string()));
        let database = match directory.store_db() {
            path if path.exists() => Some(WritableStore::open(&path)?),
            _ => None,
        };
        let found = database.as_ref().and_then(WritableStore::meta);
        let mut meta = found.unwrap_or_else(|| new_meta(session_id, &facts));
        meta.set_mode(facts.mode.in_meta());
        meta.set_last_used_model(&facts.model);
        match facts.generation {
            Generation::V2026_01 => meta = as_read_by_an_early_build(&meta),
            Generation::V2026_09 => meta.set("isRunEverything", facts.run_everything.into()),
        }
        let conversation = database
            .as_ref()
            .map(|database| Conversation::read(database, &meta))
            .unwrap_or_default();
        let mut store = Self {
            directory,
            workspace: workspace.as_path().to_path_buf(),
            database,
            meta,
            meta_file: None,
            history: conversation.messages.iter().filter_map(messages::remembered).collect(),
            pending: pending_messages(&conversation)
                .iter()
                .flat_map(messages::pending_calls)
                .collect(),
            conversation,
            turn: None,
            crash_hook: Box::new(|_| {}),
            facts,
        };
        if store.facts.generation == Generation::V2026_09 {
            store.create_directory()?;
            store.meta_file = Some(store.found_or_new_meta_file());
            store.write_meta_file()?;
        }
        Ok(store)
    }

    /// Returns true if the bucket has a session with that id.
    #[must_use]
    pub fn exists(bucket: &Path, session_id: Uuid) -> bool {
        bucket.join(session_id.to_string()).exists()
    }

    /// Calls `hook` at every crash point. The hook may end the process.
    pub fn on_crash_point(&mut self, hook: impl Fn(CrashPoint) + Send + 'static) {
        self.crash_hook = Box::new(hook);
    }

    /// Returns the conversation before this process began.
    #[must_use]
    pub fn history(&self) -> &[RememberedMessage] {
        &self.history
    }

    /// Returns the tool calls that an earlier process left unfinished.
    #[must_use]
    pub fn pending(&self) -> &[PendingCall] {
        &self.pending
    }

    /// Returns the current list of todos.
    #[must_use]
    pub fn todos(&self) -> Vec<TodoItem> {
        let database = self.database.as_ref();
        database
            .map(|database| side_state::todos(&self.conversation.root, database))
            .unwrap_or_default()
    }

    /// Estimates the size of the current prompt.
    #[must_use]
    pub fn context_tokens(&self) -> u32 {
        self.conversation.context_tokens()
    }

    /// Returns the messages of the transcript, archived ones first, by Cursor's own rule.
    #[must_use]
    pub fn transcript_messages(&self) -> Vec<Value> {
        let archived =
            self.database.iter().flat_map(|database| self.conversation.archived_messages(database));
        let shown = |message: &Value| message["role"] != "system" && !messages::is_summary(message);
        let mut shown: Vec<_> =
            archived.chain(self.conversation.messages.iter().cloned()).filter(shown).collect();
        // If the conversation begins with two user messages, the first one describes the machine.
        if let [first, second, ..] = shown.as_slice()
            && first["role"] == "user"
            && second["role"] == "user"
        {
            shown.remove(0);
        }
        shown
    }

    /// Loses the conversation silently. The next turn begins an empty one.
    pub fn forget(&mut self) {
        self.conversation = Conversation::default();
        self.history.clear();
        self.pending.clear();
    }

    /// Closes the session.
    pub fn close(self, how: Closing) -> Result<(), SessionError> {
        let has_root = self.meta.latest_root() != LatestRoot::Absent;
        let has_blobs =
            self.database.as_ref().map(WritableStore::has_blobs).transpose()?.unwrap_or(false);
        match (how, self.database) {
            (Closing::Clean, Some(database)) => database.close()?,
            (Closing::LeaveWal, Some(database)) => database.close_leaving_wal()?,
            (Closing::Clean | Closing::LeaveWal, None) => {}
        }
        let is_empty = match self.facts.generation {
            // These builds checked only the root and deleted prompts without an answer.
            Generation::V2026_01 => !has_root,
            Generation::V2026_09 => !has_root && !has_blobs,
        };
        if how == Closing::Clean && is_empty && self.directory.path().exists() {
            fs::remove_dir_all(self.directory.path())
                .map_err(|source| failed(&self.directory, source))?;
        }
        Ok(())
    }

    fn create_directory(&self) -> Result<(), SessionError> {
        fs::create_dir_all(self.directory.path()).map_err(|source| failed(&self.directory, source))
    }

    fn found_or_new_meta_file(&self) -> SessionMetaFile {
        SessionMetaFile::read(&self.directory.meta_json()).unwrap_or_else(|_| SessionMetaFile {
            schema_version: Some(1),
            created_at_ms: self.meta.created_at_ms(),
            has_conversation: Some(self.meta.latest_root() != LatestRoot::Absent),
            updated_at_ms: Some(signed(self.facts.started_ms)),
            cwd: Some(self.workspace.display().to_string()),
            ..SessionMetaFile::default()
        })
    }

    fn write_meta_file(&self) -> Result<(), SessionError> {
        let Some(meta_file) = &self.meta_file else { return Ok(()) };
        fs::write(self.directory.meta_json(), meta_file.to_json())
            .map_err(|source| failed(&self.directory, source))
    }

    fn at(&self, point: CrashPoint) {
        (self.crash_hook)(point);
    }
}

fn failed(directory: &SessionDir, source: io::Error) -> SessionError {
    SessionError::Files { path: directory.path().to_owned(), source }
}

fn new_meta(session_id: Uuid, facts: &SessionFacts) -> ChatMeta {
    let mut meta = ChatMeta::new(&session_id.to_string(), signed(facts.started_ms));
    if facts.generation == Generation::V2026_09 {
        // This key is never used: no known store encrypts its blobs.
        let random = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()].map(|uuid| *uuid.as_bytes());
        meta.set_encryption_key(BlobEncryptionKey::new(hex::encode(Sha256::digest(
            random.as_flattened(),
        ))));
    }
    meta
}

/// An early build drops the keys of later builds when it writes the row back.
fn as_read_by_an_early_build(meta: &ChatMeta) -> ChatMeta {
    const KNOWN: [&str; 6] =
        ["agentId", "latestRootBlobId", "name", "mode", "createdAt", "lastUsedModel"];
    let mut kept = ChatMeta::new("", 0);
    for key in KNOWN {
        if let Some(value) = meta.fields().get(key) {
            kept.set(key, value.clone());
        }
    }
    kept
}

/// Returns the messages of field 4 that are JSON. Cursor writes no others.
fn pending_messages(conversation: &Conversation) -> Vec<Value> {
    let texts = conversation.root.pending_tool_calls.iter();
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod test_bench;

#[cfg(test)]
mod capture_tests;

#[cfg(test)]
mod crash_tests;

#[cfg(test)]
#[path = "session_store_tests.rs"]
mod tests;
