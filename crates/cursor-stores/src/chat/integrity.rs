//! Whether a store holds all that its latest root needs: the ground for "resumable, or why not".

use std::collections::{HashSet, VecDeque};

use prost::Message;

use super::blob_id::BlobId;
use super::chat_store::{ChatStore, ReadBlobError, ReadMetaError};
use super::meta::LatestRoot;
use super::pending::{PendingMessages, parse_pending};
use super::references::{BlobKind, NotOfKind, PROMPT_MESSAGES_FIELD, Reference, visit_references};
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
    /// How many of them make the next turn fail.
    pub n_prompt_findings: usize,
    /// How many blobs the root leads to, itself included, that are there.
    pub n_reached: usize,
    /// How many blobs the root does not lead to: older roots and turns, abandoned branches. Nothing is ever deleted,
    /// so there are always some. `None` if the table is too damaged to count.
    pub n_unreached: Option<i64>,
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
    pub pending: PendingMessages,
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

impl StoreCheck {
    /// Tells whether the latest root and all that the model is prompted with are there and as they should be.
    #[must_use]
    pub fn is_prompt_intact(&self) -> bool {
        let is_cut_short = self.coverage == Coverage::CutShort;
        matches!(self.root, RootState::Present(_))
            && !is_cut_short
            && self.prompt_findings().next().is_none()
    }

    /// Returns the problems that make the next turn fail.
    pub fn prompt_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.bears_on == BearsOn::Prompt)
    }
}

/// Walks everything reachable from the latest root, each blob once, and checks that it is there, that its hash is its
/// id, and that it is what the field that refers to it says.
pub fn check_store(store: &ChatStore) -> Result<StoreCheck, CheckStoreError> {
    check_within(store, MAX_REFERENCES)
}

fn check_within(store: &ChatStore, max_references: usize) -> Result<StoreCheck, CheckStoreError> {
    let n_blobs = match store.counts() {
        Ok(counts) => Some(counts.n_blobs),
        Err(err) if err.is_damage() => None,
        Err(err) => return Err(err.into()),
    };
    let mut walk = Walk::new(max_references);
    let root = match store.meta()?.map(|meta| meta.latest_root()) {
        None | Some(LatestRoot::Absent) => RootState::Absent,
        Some(LatestRoot::Malformed(text)) => RootState::Malformed { text },
        Some(LatestRoot::Blob(id)) => walk.start(store, id)?,
    };
    walk.run(store)?;
    let n_reached = walk.reached.len();
    Ok(StoreCheck {
        root,
        findings: walk.findings,
        n_findings: walk.n_findings,
        n_prompt_findings: walk.n_prompt_findings,
        n_reached,
        n_unreached: n_blobs.map(|n_blobs| n_blobs - i64::try_from(n_reached).unwrap_or(i64::MAX)),
        coverage: walk.coverage,
    })
}

struct Walk {
    max_references: usize,
    latest_root: Option<BlobId>,
    queue: VecDeque<Visit>,
    seen: HashSet<(BlobId, BlobKind)>,
    reached: HashSet<BlobId>,
    findings: Vec<Finding>,
    n_findings: usize,
    n_prompt_findings: usize,
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
            n_prompt_findings: 0,
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
            Ok(root) => RootState::Present(LatestState {
                id,
                n_prompt_messages: root.root_prompt_messages_json.len(),
                n_turns: root.turns.len() + root.turns_old.len(),
                pending: parse_pending(&root.pending_tool_calls),
            }),
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
        self.n_prompt_findings += usize::from(finding.bears_on == BearsOn::Prompt);
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
#[path = "integrity_tests.rs"]
mod tests;
