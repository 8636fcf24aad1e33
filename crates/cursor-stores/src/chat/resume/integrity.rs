//! Does a store contain everything that its latest root leads to? A resume needs less: see `resumability`.

use std::collections::HashSet;

use prost::Message;

use super::finding::{Place, StoreFinding};
use crate::chat::messages::{PendingMessages, parse_pending};
use crate::chat::schema::ConversationStateStructure;
use crate::chat::schema::references::{BlobKind, NotOfKind};
use crate::chat::store::{
    BlobId, BlobWalk, ChatStore, ChatStoreError, EarlierStates, Fetched, LatestRoot,
    MAX_REFERENCES, Reached, RootProblem, reach_with,
};
use crate::database::ReadDatabaseError;

/// The result of a walk over everything that the latest root leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreCheck {
    /// Without a latest state, Cursor resumes with an empty conversation, and reports no error.
    pub root: Result<LatestState, StoreFinding>,
    /// The first thousand problems below the root, in the order of the walk.
    pub findings: Vec<StoreFinding>,
    /// The total number of problems.
    pub n_findings: usize,
    /// How many existing blobs the root leads to, including the root itself.
    pub n_reached: usize,
}

/// The content of the latest root.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestState {
    pub id: BlobId,
    pub n_prompt_messages: usize,
    pub n_turns: usize,
    /// The calls that the agent was waiting for when it stopped. A resumed agent learns that they were interrupted.
    pub pending: PendingMessages,
    /// The conversation's workspaces as `file://` addresses, latest last.
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

const MAX_FINDINGS: usize = 1_000;

/// Walks everything that the latest root leads to. Checks that each blob exists, that its hash is its id, and that it
/// is of the kind that the referring field requires.
pub fn check_store(store: &ChatStore) -> Result<StoreCheck, ChatStoreError> {
    check_within(store, MAX_REFERENCES)
}

fn check_within(store: &ChatStore, max_references: usize) -> Result<StoreCheck, ChatStoreError> {
    let latest = LatestRoot::of_row(store.meta()?.as_ref());
    let mut check = Check {
        store,
        walk: BlobWalk::new(EarlierStates::Follow, max_references),
        latest_root: latest.blob(),
        reached: HashSet::new(),
        findings: Vec::new(),
        n_findings: 0,
    };
    let root = match latest {
        LatestRoot::Absent => Err(StoreFinding::RootAbsent),
        LatestRoot::Malformed(text) => Err(StoreFinding::RootMalformed { text }),
        LatestRoot::Blob(id) => check.start(id)?,
    };
    check.run()?;
    let Check { walk, reached, mut findings, mut n_findings, .. } = check;
    if walk.is_cut_short {
        findings.push(StoreFinding::CutShort);
        n_findings += 1;
    }
    Ok(StoreCheck { root, findings, n_findings, n_reached: reached.len() })
}

/// How many bytes of blobs [`missing_history`] loads.
const LOADED_BYTES: u64 = 4 << 20;

/// Finds blobs that the latest root leads to and that the index lacks, except prompt messages:
/// [`crate::chat::resume_point`] judges those. Loads no leaves, and only the first few megabytes of the blobs that
/// refer to others. This makes it fast; [`check_store`] is thorough.
pub(crate) fn missing_history(
    store: &ChatStore,
    root: BlobId,
) -> Result<Vec<StoreFinding>, ReadDatabaseError> {
    store.at_once(|blobs| {
        let Ok(state) = blobs.get_by_index(root)?.state(root) else { return Ok(Vec::new()) };
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
        // In index order, because neighbours share a page.
        history.sort_unstable_by_key(|(id, _)| *id);
        let mut missing = Vec::new();
        for (id, reached) in history {
            if !blobs.is_indexed(id)? {
                missing.push((id, reached));
            }
        }
        missing.sort_unstable_by_key(|(_, reached)| reached.position);
        let finding = |(id, Reached { visit, .. }): (BlobId, Reached)| {
            let blob = visit.referrer.unwrap_or(root);
            StoreFinding::Dangling {
                id,
                place: Place { blob, field: visit.field, is_prompt: false },
            }
        };
        Ok(missing.into_iter().take(MAX_FINDINGS).map(finding).collect())
    })
}

struct Check<'s> {
    store: &'s ChatStore,
    walk: BlobWalk,
    latest_root: Option<BlobId>,
    reached: HashSet<BlobId>,
    findings: Vec<StoreFinding>,
    n_findings: usize,
}

impl Check<'_> {
    fn start(
        &mut self,
        id: BlobId,
    ) -> Result<Result<LatestState, StoreFinding>, ReadDatabaseError> {
        Ok(match self.fetch(id)?.state(id) {
            Ok(state) => {
                self.follow(id, BlobKind::Root, &state.encode_to_vec()).ok();
                Ok(LatestState::of(id, &state))
            }
            Err(RootProblem::Missing) => Err(StoreFinding::RootMissing { id }),
            Err(RootProblem::HashMismatch | RootProblem::Unreadable) => {
                Err(StoreFinding::RootDamaged { id })
            }
            Err(RootProblem::Undecodable(why)) => {
                Err(StoreFinding::RootUndecodable { id, why: NotOfKind::from(why).to_string() })
            }
        })
    }

    /// Does not follow a blob with a different hash: it is not the blob that the field means.
    fn run(&mut self) -> Result<(), ReadDatabaseError> {
        while let Some(visit) = self.walk.next() {
            let (id, blob) = (visit.id, visit.referrer.unwrap_or(visit.id));
            let place = self.place(blob, visit.field, visit.is_prompt);
            let finding = match self.fetch(id)? {
                Fetched::Data(data) if BlobId::of(&data) == id => {
                    match self.follow(id, visit.kind, &data) {
                        Ok(()) => continue,
                        Err(why) => StoreFinding::NotOfKind { id, why: why.to_string(), place },
                    }
                }
                Fetched::Data(_) => StoreFinding::HashMismatch { id, place },
                Fetched::Missing => StoreFinding::Dangling { id, place },
                Fetched::TooLarge { .. } | Fetched::Unreadable => {
                    StoreFinding::BlobUnreadable { id, place }
                }
            };
            self.note(finding);
        }
        Ok(())
    }

    fn place(&self, blob: BlobId, field: String, is_prompt: bool) -> Place {
        Place { blob, field, is_prompt: is_prompt && self.latest_root == Some(blob) }
    }

    fn fetch(&mut self, id: BlobId) -> Result<Fetched, ReadDatabaseError> {
        let fetched = match self.store.by_index(id) {
            Err(err) if err.is_damage() => Fetched::Unreadable,
            read => read?,
        };
        if fetched != Fetched::Missing {
            self.reached.insert(id);
        }
        Ok(fetched)
    }

    /// Queues every blob that this one refers to, and records references that are not blob ids.
    fn follow(&mut self, blob: BlobId, kind: BlobKind, data: &[u8]) -> Result<(), NotOfKind> {
        let mut malformed = Vec::new();
        let followed = self.walk.follow(Some(blob), kind, data, &mut |reference| {
            let field = reference.field;
            malformed.push((reference.id.len(), field.to_string(), field.is_prompt()));
        });
        for (n_bytes, field, is_prompt) in malformed {
            let place = self.place(blob, field, is_prompt);
            self.note(StoreFinding::MalformedId { n_bytes, place });
        }
        followed
    }

    fn note(&mut self, finding: StoreFinding) {
        self.n_findings += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
#[path = "integrity_tests.rs"]
mod tests;
