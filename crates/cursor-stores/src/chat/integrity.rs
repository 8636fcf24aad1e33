//! Whether a store holds all that its latest root leads to: more than a resume needs, which `resumability` decides.

use std::collections::{HashSet, VecDeque};

use prost::Message;

use super::blob_id::BlobId;
use super::blobs::Fetched;
use super::chat_store::{ChatStore, ReadBlobError, ReadMetaError};
use super::meta::LatestRoot;
use super::pending::{PendingMessages, parse_pending};
use super::reach::{Reached, reach_with};
use super::references::{BlobKind, NotOfKind, PROMPT_MESSAGES_FIELD, Reference, visit_references};
use super::resumability::read_root;
use super::schema::ConversationStateStructure;
use crate::read_only_database::ReadDatabaseError;

/// What a walk over everything reachable from the latest root found.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreCheck {
    pub root: RootState,
    /// The first thousand problems below the root, in the order of the walk.
    pub findings: Vec<Finding>,
    /// How many there are.
    pub n_findings: usize,
    /// How many blobs the root leads to, itself included, that are there.
    pub n_reached: usize,
    pub coverage: Coverage,
}

/// What became of the latest root. Cursor resumes with an empty conversation, and no error, unless it is present.
#[derive(Debug, Clone, PartialEq)]
pub enum RootState {
    /// No checkpoint was written, or not even a meta row.
    Absent,
    /// The meta row names something that is no blob id.
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

/// What the latest root says.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestState {
    pub id: BlobId,
    pub n_prompt_messages: usize,
    pub n_turns: usize,
    /// What the agent was waiting for when it stopped. A resume tells it that it was interrupted.
    pub pending: PendingMessages,
    /// Where the conversation was held: `file://` addresses, the latest last.
    pub workspace_uris: Vec<String>,
}

impl LatestState {
    pub(super) fn of(id: BlobId, root: &ConversationStateStructure) -> Self {
        Self {
            id,
            n_prompt_messages: root.root_prompt_messages_json.len(),
            n_turns: root.turns.len() + root.turns_old.len(),
            pending: parse_pending(&root.pending_tool_calls),
            workspace_uris: root.previous_workspace_uris.clone(),
        }
    }
}

/// Something that is not as the blob that refers to it needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub problem: Problem,
    /// What the blob should be.
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

/// What a problem spoils.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearsOn {
    /// What the model is prompted with: the next turn fails.
    Prompt,
    /// What is shown, undone or looked up: the conversation goes on without it.
    History,
}

/// Whether the walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    Complete,
    /// The store has more references than any real one, and some were not followed.
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

/// A store of half a gigabyte was reported to have 21,000 blobs.
const MAX_REFERENCES: usize = 500_000;
const MAX_FINDINGS: usize = 1_000;

/// Walks everything reachable from the latest root, each blob once, and checks that it is there, that its hash is its
/// id, and that it is what the field that refers to it says.
pub fn check_store(store: &ChatStore) -> Result<StoreCheck, CheckStoreError> {
    check_within(store, MAX_REFERENCES)
}

fn check_within(store: &ChatStore, max_references: usize) -> Result<StoreCheck, CheckStoreError> {
    let mut walk = Walk::new(max_references);
    let root = match store.meta()?.map(|meta| meta.latest_root()) {
        None | Some(LatestRoot::Absent) => RootState::Absent,
        Some(LatestRoot::Malformed(text)) => RootState::Malformed { text },
        Some(LatestRoot::Blob(id)) => walk.start(store, id)?,
    };
    walk.run(store)?;
    Ok(StoreCheck {
        root,
        findings: walk.findings,
        n_findings: walk.n_findings,
        n_reached: walk.reached.len(),
        coverage: walk.coverage,
    })
}

/// How much of what leads on is loaded to find what is missing.
const LOADED_BYTES: u64 = 4 << 20;

/// Finds what the latest root leads to and the index of the store does not have, the messages of its prompt left out:
/// those are for [`super::resume_point`] to judge. Loads no leaf, and of what leads on only the first few megabytes, so
/// that it is fast where [`check_store`] is thorough.
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
        // In the order of the index: neighbours are on one page.
        history.sort_unstable_by_key(|(id, _)| *id);
        let mut missing = Vec::new();
        for (id, reached) in history {
            if !blobs.is_indexed(id)? {
                missing.push((id, reached));
            }
        }
        missing.sort_unstable_by_key(|(_, reached)| reached.position);
        let finding = |(id, reached): (BlobId, Reached)| Finding {
            problem: Problem::Missing { id },
            kind: reached.kind,
            referrer: Referrer { blob: reached.referrer.unwrap_or(root), field: reached.field },
            bears_on: BearsOn::History,
        };
        Ok(missing.into_iter().take(MAX_FINDINGS).map(finding).collect())
    })?)
}

struct Walk {
    max_references: usize,
    latest_root: Option<BlobId>,
    queue: VecDeque<Visit>,
    seen: HashSet<(BlobId, BlobKind)>,
    reached: HashSet<BlobId>,
    findings: Vec<Finding>,
    n_findings: usize,
    coverage: Coverage,
}

struct Visit {
    id: BlobId,
    kind: BlobKind,
    referrer: Referrer,
    bears_on: BearsOn,
}

impl Walk {
    fn new(max_references: usize) -> Self {
        Self {
            max_references,
            latest_root: None,
            queue: VecDeque::new(),
            seen: HashSet::new(),
            reached: HashSet::new(),
            findings: Vec::new(),
            n_findings: 0,
            coverage: Coverage::Complete,
        }
    }

    fn start(&mut self, store: &ChatStore, id: BlobId) -> Result<RootState, CheckStoreError> {
        self.latest_root = Some(id);
        self.seen.insert((id, BlobKind::Root));
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
        while let Some(visit) = self.queue.pop_front() {
            let problem = match self.fetch(store, visit.id)? {
                Ok(data) => match self.follow(visit.id, visit.kind, &data) {
                    Ok(()) => continue,
                    Err(why) => Problem::NotOfKind { id: visit.id, why },
                },
                Err(problem) => problem,
            };
            self.note(Finding {
                problem,
                kind: visit.kind,
                referrer: visit.referrer,
                bears_on: visit.bears_on,
            });
        }
        Ok(())
    }

    /// Reads a blob whose hash is its id. One whose hash is another is not looked into: it is not what was meant.
    fn fetch(
        &mut self,
        store: &ChatStore,
        id: BlobId,
    ) -> Result<Result<Vec<u8>, Problem>, CheckStoreError> {
        let data = match store.blob(id) {
            Ok(None) => return Ok(Err(Problem::Missing { id })),
            Ok(Some(data)) => Ok(data),
            Err(ReadBlobError::TooLarge { bytes, .. }) => Err(Problem::TooLarge { id, bytes }),
            Err(ReadBlobError::Database(err)) if err.is_damage() => Err(Problem::Unreadable { id }),
            Err(ReadBlobError::Database(err)) => return Err(err.into()),
        };
        self.reached.insert(id);
        Ok(data.and_then(|data| {
            if BlobId::of(&data) == id { Ok(data) } else { Err(Problem::HashMismatch { id }) }
        }))
    }

    /// Queues everything a blob refers to that was not seen yet.
    fn follow(&mut self, blob: BlobId, kind: BlobKind, data: &[u8]) -> Result<(), NotOfKind> {
        visit_references(kind, data, &mut |reference| self.queue_reference(blob, &reference))
    }

    fn queue_reference(&mut self, blob: BlobId, reference: &Reference<'_>) {
        let Reference { id, kind, field } = *reference;
        let is_prompt = self.latest_root == Some(blob)
            && field.name == PROMPT_MESSAGES_FIELD
            && field.subagent.is_none();
        let bears_on = if is_prompt { BearsOn::Prompt } else { BearsOn::History };
        let Ok(id) = BlobId::try_from(id) else {
            let problem = Problem::MalformedId { n_bytes: id.len() };
            let referrer = Referrer { blob, field: field.to_string() };
            return self.note(Finding { problem, kind, referrer, bears_on });
        };
        if self.seen.contains(&(id, kind)) {
            return;
        }
        if self.seen.len() >= self.max_references {
            self.coverage = Coverage::CutShort;
            return;
        }
        self.seen.insert((id, kind));
        self.queue.push_back(Visit {
            id,
            kind,
            referrer: Referrer { blob, field: field.to_string() },
            bears_on,
        });
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
