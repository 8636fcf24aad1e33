//! What Cursor's store holds of a session after a run: where it stands, what was under way, whether it can go on.

mod pending_subject;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cursor_stores::chat::{
    ChatStore, CheckStoreError, Coverage, LatestState, OpenChatStoreError, PendingMessages,
    PendingToolCall, ReadMetaError, RootState, StoreCheck, check_store,
};
use cursor_stores::{OpenDatabaseError, PlainFileError, ReadDatabaseError};
use run_protocol::{Checkpoint, PendingTool, Resumable};
use uuid::Uuid;

use pending_subject::{few_words, subject};

/// A store of half a gigabyte takes seconds. A hostile one can be made to take for ever: pages of its tree may be
/// shared, so that a small file holds more rows than could be counted.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Somebody outside the sandbox may write to the store while it is read.
const ATTEMPTS: usize = 3;
/// More calls than any model makes in one step.
const MOST_PENDING: usize = 32;

/// Reads `store.db` and says what became of the session. Never fails: what cannot be read is not resumable. Blocks for
/// twenty seconds at most; a reader that takes longer is left behind in its thread.
pub(crate) fn checkpoint(store_db: &Path, session: Uuid) -> Checkpoint {
    within(TIME_LIMIT, store_db.to_owned(), session, read)
}

type Reader = fn(&Path) -> Finding;

fn within(limit: Duration, store_db: PathBuf, session: Uuid, read: Reader) -> Checkpoint {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("checkpoint".to_owned());
    let started = thread.spawn(move || sender.send(read(&store_db)).ok());
    let finding = match (started, receiver.recv_timeout(limit)) {
        (Ok(_), Ok(finding)) => finding,
        (Ok(_), Err(mpsc::RecvTimeoutError::Timeout)) => Finding::unreadable(format!(
            "the session's store could not be checked within {} seconds",
            limit.as_secs()
        )),
        (Ok(_), Err(mpsc::RecvTimeoutError::Disconnected)) => {
            Finding::unreadable("the check of the session's store failed".to_owned())
        }
        (Err(err), _) => {
            Finding::unreadable(format!("the session's store could not be checked: {err}"))
        }
    };
    finding.of_session(session)
}

/// A checkpoint of a session whose name does not matter yet.
#[derive(Debug)]
struct Finding {
    root: Option<String>,
    latest: Option<LatestState>,
    resumable: Resumable,
}

impl Finding {
    fn unreadable(reason: String) -> Self {
        Self { root: None, latest: None, resumable: Resumable::No { reason } }
    }

    fn of_session(self, session: Uuid) -> Checkpoint {
        let latest = self.latest.as_ref();
        let count = |n: Option<usize>| n.map_or(0, |n| u64::try_from(n).unwrap_or(u64::MAX));
        Checkpoint {
            session: session.to_string(),
            root: self.root,
            messages: count(latest.map(|latest| latest.n_prompt_messages)),
            turns: count(latest.map(|latest| latest.n_turns)),
            pending: latest.map(|latest| pending_tools(&latest.pending)).unwrap_or_default(),
            resumable: self.resumable,
        }
    }
}

/// The calls that were under way, each in a few words.
pub fn pending_tools(pending: &PendingMessages) -> Vec<PendingTool> {
    pending.tool_calls.iter().take(MOST_PENDING).map(pending_tool).collect()
}

fn pending_tool(call: &PendingToolCall) -> PendingTool {
    let tool = match call.tool_name.as_str() {
        "" => "unnamed".to_owned(),
        name => few_words(name),
    };
    PendingTool { tool, subject: subject(&call.args) }
}

fn read(store_db: &Path) -> Finding {
    for _ in 0..ATTEMPTS {
        match check(store_db) {
            Ok(check) => return judge(check),
            Err(NotChecked::Because(reason)) => return Finding::unreadable(reason),
            Err(NotChecked::Changed) => {}
        }
    }
    Finding::unreadable("the session's store is being written by somebody else".to_owned())
}

/// Why there is nothing to judge.
enum NotChecked {
    Changed,
    /// In a sentence.
    Because(String),
}

fn check(store_db: &Path) -> Result<StoreCheck, NotChecked> {
    let store = ChatStore::open_read_only(store_db)?;
    Ok(check_store(&store)?)
}

fn judge(check: StoreCheck) -> Finding {
    let is_intact = check.is_prompt_intact();
    let no = |reason: &str| Resumable::No { reason: reason.to_owned() };
    let (root, latest, resumable) = match check.root {
        RootState::Absent => (
            None,
            None,
            no("the agent wrote no checkpoint, so resuming would begin an empty conversation"),
        ),
        RootState::Malformed { .. } => {
            (None, None, no("the session's latest checkpoint has a malformed name"))
        }
        RootState::Missing { id } => {
            (Some(id), None, no("the session's latest checkpoint is missing from its store"))
        }
        RootState::HashMismatch { id } => {
            (Some(id), None, no("the session's latest checkpoint is encrypted or damaged"))
        }
        RootState::Unreadable { id } => (
            Some(id),
            None,
            no("the session's latest checkpoint is too large or in a damaged part of its store"),
        ),
        RootState::Undecodable { id, .. } => {
            (Some(id), None, no("the session's latest checkpoint is damaged"))
        }
        RootState::Present(latest) => {
            let resumable = match (is_intact, check.coverage, check.n_prompt_findings) {
                (true, ..) => Resumable::Yes,
                (false, Coverage::CutShort, 0) => {
                    no("the session's store has more references than any real one")
                }
                (false, _, n_bad) => Resumable::No {
                    reason: format!(
                        "of the conversation's {} messages {n_bad} cannot be read",
                        latest.n_prompt_messages
                    ),
                },
            };
            (Some(latest.id), Some(latest), resumable)
        }
    };
    Finding { root: root.map(|id| id.to_string()), latest, resumable }
}

impl From<OpenChatStoreError> for NotChecked {
    fn from(err: OpenChatStoreError) -> Self {
        let reason = match err {
            OpenChatStoreError::Read(err) => return err.into(),
            OpenChatStoreError::Database(OpenDatabaseError::Changing) => return Self::Changed,
            OpenChatStoreError::Database(OpenDatabaseError::File(PlainFileError::Missing {
                ..
            })) => "the agent left no store for this session".to_owned(),
            OpenChatStoreError::Database(OpenDatabaseError::File(PlainFileError::NotPlain {
                kind,
                ..
            })) => format!("the session's store is a {kind}, not a plain file"),
            OpenChatStoreError::Database(OpenDatabaseError::File(_)) => {
                "the session's store cannot be opened".to_owned()
            }
            OpenChatStoreError::Database(OpenDatabaseError::Empty) => {
                "the session's store is an empty file".to_owned()
            }
            OpenChatStoreError::Database(OpenDatabaseError::NotADatabase) => {
                "the session's store is damaged or no database at all".to_owned()
            }
            OpenChatStoreError::NotAChat { .. } => {
                "the session's store does not have the tables of a chat".to_owned()
            }
            err => format!("the session's store cannot be opened: {}", with_sources(&err)),
        };
        Self::Because(reason)
    }
}

impl From<CheckStoreError> for NotChecked {
    fn from(err: CheckStoreError) -> Self {
        let reason = match err {
            CheckStoreError::Database(err)
            | CheckStoreError::Meta(ReadMetaError::Database(err)) => return err.into(),
            CheckStoreError::Meta(ReadMetaError::Content(_)) => {
                "the session's own description in its store is damaged".to_owned()
            }
            err => format!("the session's store cannot be read: {}", with_sources(&err)),
        };
        Self::Because(reason)
    }
}

impl From<ReadDatabaseError> for NotChecked {
    fn from(err: ReadDatabaseError) -> Self {
        match err {
            ReadDatabaseError::Changed => Self::Changed,
            err => {
                Self::Because(format!("the session's store cannot be read: {}", with_sources(&err)))
            }
        }
    }
}

/// An error and what caused it, on one line. What SQLite says of a hostile file may quote the file.
fn with_sources(err: &dyn std::error::Error) -> String {
    few_words(&ground::with_causes(err))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
