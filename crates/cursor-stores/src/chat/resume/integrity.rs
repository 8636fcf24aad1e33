//! Does a store hold everything that its latest root leads to? That is more than a resume needs; `resumability`
//! decides that.

use std::collections::HashSet;

use prost::Message;

use super::resumability::read_root;
use crate::chat::messages::{PendingMessages, parse_pending};
use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::{BlobKind, NotOfKind};
use crate::chat::store::{
    BlobId, BlobWalk, ChatStore, EarlierStates, Fetched, LatestRoot, MAX_REFERENCES, Reached,
    ReadMetaError, Visit, reach_with,
};
use crate::database::ReadDatabaseError;

/// The result of a walk over everything that the latest root leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreCheck {
    pub root: RootState,
    /// The first thousand problems below the root, in the order of the walk.
    pub findings: Vec<Finding>,
    /// The number of all problems.
    pub n_findings: usize,
    /// How many existing blobs the root leads to, with the root itself.
    pub n_reached: usize,
    pub coverage: Coverage,
}

/// The state of the latest root. Unless it is present, Cursor resumes with an empty conversation, and no error.
#[derive(Debug, Clone, PartialEq)]
pub enum RootState {
    /// The agent wrote no checkpoint, or not even a meta row.
    Absent,
    /// The meta row does not name a blob id.
    Malformed {
        text: String,
    },
    Missing {
        id: BlobId,
    },
    /// Encrypted or corrupt.
    HashMismatch {
        id: BlobId,
    },
    /// Too large, or in a damaged part of the file.
    Unreadable {
        id: BlobId,
    },
    Undecodable {
        id: BlobId,
        why: NotOfKind,
    },
    Present(LatestState),
}

/// The content of the latest root.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestState {
    pub id: BlobId,
    pub n_prompt_messages: usize,
    pub n_turns: usize,
    /// The calls that the agent was waiting for when it stopped. A resumed agent learns that they were interrupted.
    pub pending: PendingMessages,
    /// The workspaces of the conversation as `file://` addresses, the latest last.
    pub workspace_uris: Vec<String>,
}

impl LatestState {
    pub(crate) fn of(id: BlobId, root: &ConversationStateStructure) -> Self {
        Self {
            id,
            n_prompt_messages: root.root_prompt_messages_json.len(),
            n_turns: root.turns.len() + root.turns_old.len(),
            pending: parse_pending(&root.pending_tool_calls),
            workspace_uris: root.previous_workspace_uris.clone(),
        }
    }
}

/// A blob that its referrer cannot use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub problem: Problem,
    /// The kind that the blob should have.
    pub kind: BlobKind,
    pub referrer: Referrer,
    pub bears_on: BearsOn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    Missing {
        id: BlobId,
    },
    /// Encrypted or corrupt.
    HashMismatch {
        id: BlobId,
    },
    NotOfKind {
        id: BlobId,
        why: NotOfKind,
    },
    TooLarge {
        id: BlobId,
        bytes: i64,
    },
    /// In a damaged part of the file.
    Unreadable {
        id: BlobId,
    },
    /// The reference itself is not a blob id.
    MalformedId {
        n_bytes: usize,
    },
}

/// The field that refers to a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    pub blob: BlobId,
    /// Such as `turns[3]`.
    pub field: String,
}

/// The effect of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearsOn {
    /// The model's prompt is incomplete: the next turn fails.
    Prompt,
    /// Something is missing to show, undo or look up. The conversation goes on without it.
    History,
}

/// Did the walk see everything?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    Complete,
    /// The store has more references than any real one. The walk did not follow some of them.
    CutShort,
}

/// Says why a store could not be checked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckStoreError {
    #[error(transparent)]
    Meta(#[from] ReadMetaError),
    #[error(transparent)]
    Database(#[from] ReadDatabaseError),
}

const MAX_FINDINGS: usize = 1_000;

/// Walks everything that the latest root leads to. Checks that each blob is there, that its hash is its id, and that
/// it has the kind that the referring field says.
pub fn check_store(store: &ChatStore) -> Result<StoreCheck, CheckStoreError> {
    check_within(store, MAX_REFERENCES)
}

fn check_within(store: &ChatStore, max_references: usize) -> Result<StoreCheck, CheckStoreError> {
    let mut check = Check {
        walk: BlobWalk::new(EarlierStates::Follow, max_references),
        latest_root: None,
        reached: HashSet::new(),
        findings: Vec::new(),
        n_findings: 0,
    };
    let root = match store.meta()?.map(|meta| meta.latest_root()) {
        None | Some(LatestRoot::Absent) => RootState::Absent,
        Some(LatestRoot::Malformed(text)) => RootState::Malformed { text },
        Some(LatestRoot::Blob(id)) => check.start(store, id)?,
    };
    check.run(store)?;
    let coverage = if check.walk.is_cut_short { Coverage::CutShort } else { Coverage::Complete };
    Ok(StoreCheck {
        root,
        findings: check.findings,
        n_findings: check.n_findings,
        n_reached: check.reached.len(),
        coverage,
    })
}

/// How many bytes of blobs [`missing_history`] loads.
const LOADED_BYTES: u64 = 4 << 20;

/// Finds blobs that the latest root leads to and that the index lacks, except messages of the prompt:
/// [`crate::chat::resume_point`] judges those. Loads no leaf, and only the first few megabytes of blobs that lead on.
/// So it is fast where [`check_store`] is thorough.
pub(crate) fn missing_history(store: &ChatStore) -> Result<Vec<Finding>, CheckStoreError> {
    let Some(LatestRoot::Blob(root)) = store.meta()?.map(|meta| meta.latest_root()) else {
        return Ok(Vec::new());
    };
    Ok(store.at_once(|blobs| {
        let Ok(state) = read_root(blobs, root)? else { return Ok(Vec::new()) };
        let mut rest = LOADED_BYTES;
        let reached = reach_with(&state, &mut |id| {
            let length = blobs.indexed_length(id)?.and_then(|length| u64::try_from(length).ok());
            match length.and_then(|length| rest.checked_sub(length)) {
                None => Ok(Fetched::Missing),
                Some(less) => {
                    rest = less;
                    blobs.get_by_index(id)
                }
            }
        })?;
        let prompt: HashSet<&[u8]> =
            state.root_prompt_messages_json.iter().map(Vec::as_slice).collect();
        let is_history = |id: &BlobId| !prompt.contains(id.as_bytes().as_slice());
        let mut history: Vec<_> = reached.into_iter().filter(|(id, _)| is_history(id)).collect();
        // In the order of the index: neighbours share a page.
        history.sort_unstable_by_key(|(id, _)| *id);
        let mut missing = Vec::new();
        for (id, reached) in history {
            if !blobs.is_indexed(id)? {
                missing.push((id, reached));
            }
        }
        missing.sort_unstable_by_key(|(_, reached)| reached.position);
        let finding = |(id, Reached { visit, .. }): (BlobId, Reached)| Finding {
            problem: Problem::Missing { id },
            kind: visit.kind,
            referrer: Referrer { blob: visit.referrer.unwrap_or(root), field: visit.field },
            bears_on: BearsOn::History,
        };
        Ok(missing.into_iter().take(MAX_FINDINGS).map(finding).collect())
    })?)
}

struct Check {
    walk: BlobWalk,
    latest_root: Option<BlobId>,
    reached: HashSet<BlobId>,
    findings: Vec<Finding>,
    n_findings: usize,
}

impl Check {
    fn start(&mut self, store: &ChatStore, id: BlobId) -> Result<RootState, CheckStoreError> {
        self.latest_root = Some(id);
        let data = match self.fetch(store, id)? {
            Ok(data) => data,
            Err(Problem::Missing { id }) => return Ok(RootState::Missing { id }),
            Err(Problem::HashMismatch { id }) => return Ok(RootState::HashMismatch { id }),
            Err(_) => return Ok(RootState::Unreadable { id }),
        };
        if let Err(why) = self.follow(id, BlobKind::Root, &data) {
            return Ok(RootState::Undecodable { id, why });
        }
        Ok(match ConversationStateStructure::decode(data.as_slice()) {
            Ok(root) => RootState::Present(LatestState::of(id, &root)),
            Err(err) => RootState::Undecodable { id, why: err.into() },
        })
    }

    fn run(&mut self, store: &ChatStore) -> Result<(), CheckStoreError> {
        while let Some(Visit { id, kind, referrer, field, is_prompt }) = self.walk.next() {
            let problem = match self.fetch(store, id)? {
                Ok(data) => match self.follow(id, kind, &data) {
                    Ok(()) => continue,
                    Err(why) => Problem::NotOfKind { id, why },
                },
                Err(problem) => problem,
            };
            let blob = referrer.unwrap_or(id);
            let bears_on = self.bears_on(blob, is_prompt);
            self.note(Finding { problem, kind, referrer: Referrer { blob, field }, bears_on });
        }
        Ok(())
    }

    fn bears_on(&self, referrer: BlobId, is_prompt: bool) -> BearsOn {
        if is_prompt && self.latest_root == Some(referrer) {
            BearsOn::Prompt
        } else {
            BearsOn::History
        }
    }

    /// Reads a blob whose hash is its id. The check does not follow a blob with another hash: it is not the blob that the
    /// field means.
    fn fetch(
        &mut self,
        store: &ChatStore,
        id: BlobId,
    ) -> Result<Result<Vec<u8>, Problem>, CheckStoreError> {
        let problem = match store.by_index(id) {
            Ok(Fetched::Missing) => return Ok(Err(Problem::Missing { id })),
            Ok(Fetched::Data(data)) if BlobId::of(&data) == id => {
                self.reached.insert(id);
                return Ok(Ok(data));
            }
            Ok(Fetched::Data(_)) => Problem::HashMismatch { id },
            Ok(Fetched::TooLarge { bytes }) => Problem::TooLarge { id, bytes },
            Ok(Fetched::Unreadable) => Problem::Unreadable { id },
            Err(err) if err.is_damage() => Problem::Unreadable { id },
            Err(err) => return Err(err.into()),
        };
        self.reached.insert(id);
        Ok(Err(problem))
    }

    /// Queues every blob that this one refers to, and notes references that are not blob ids.
    fn follow(&mut self, blob: BlobId, kind: BlobKind, data: &[u8]) -> Result<(), NotOfKind> {
        let mut malformed = Vec::new();
        let followed = self.walk.follow(Some(blob), kind, data, &mut |reference| {
            let problem = Problem::MalformedId { n_bytes: reference.id.len() };
            let referrer = Referrer { blob, field: reference.field.to_string() };
            malformed.push((problem, reference.kind, referrer, reference.field.is_prompt()));
        });
        for (problem, kind, referrer, is_prompt) in malformed {
            let bears_on = self.bears_on(blob, is_prompt);
            self.note(Finding { problem, kind, referrer, bears_on });
        }
        followed
    }

    fn note(&mut self, finding: Finding) {
        self.n_findings += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
#[path = "integrity_tests.rs"]
mod tests;
