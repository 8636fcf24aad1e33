//! Checking a store: everything that its root leads to, and the rest of the file.

use std::path::Path;

use serde::Serialize;

use super::root_candidates::{RootCandidate, best_root};
use crate::chat::{
    BearsOn, BlobId, ChatMeta, ChatStore, Coverage, Depth, Finding, NotResumable,
    OpenChatStoreError, Problem, ReadMetaError, RootState, Scanned, StoreCheck, check_store,
    missing_history, resume_point,
};
use crate::database::OpenDatabaseError;
use crate::session_copy::source::{CopySourceError, Source, again_if_changed, with_source};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreVerdict {
    pub findings: Vec<StoreFinding>,
    /// The number of all findings. Only the first thousand are listed.
    pub n_findings: usize,
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// Blobs that no reachable blob names. There are always some: Cursor deletes nothing.
    pub n_orphans: u64,
    pub n_orphan_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<BlobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_prompt_messages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_turns: Option<usize>,
    /// The best root for a repair, if the conversation cannot continue from the store's own root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<RootCandidate>,
}

/// A problem of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreFinding {
    /// The store cannot be opened.
    Unreadable {
        why: String,
    },
    /// Pages are inconsistent, or some rows cannot be reached.
    FileDamaged {
        why: String,
    },
    /// The newest changes may be missing from this check.
    LogUnreadable,
    MetaMissing,
    MetaUnreadable {
        why: String,
    },
    /// The row names another session than the directory.
    AgentIdDiffers {
        agent_id: String,
    },
    /// There is no checkpoint: a resume begins an empty conversation.
    RootAbsent,
    RootMalformed {
        text: String,
    },
    RootMissing {
        id: BlobId,
    },
    /// Encrypted or corrupt.
    RootDamaged {
        id: BlobId,
    },
    RootUndecodable {
        id: BlobId,
        why: String,
    },
    /// There is no other finding, but a resume would be refused.
    NotResumable {
        why: NotResumable,
    },
    /// A field names a blob that does not exist.
    Dangling {
        id: BlobId,
        place: Place,
    },
    /// Its hash is not its id: encrypted or corrupt.
    HashMismatch {
        id: BlobId,
        place: Place,
    },
    /// The blob does not have the kind that the referring field says.
    NotOfKind {
        id: BlobId,
        why: String,
        place: Place,
    },
    /// In a damaged part of the file, or larger than any blob.
    BlobUnreadable {
        id: BlobId,
        place: Place,
    },
    /// The reference is not a blob id.
    MalformedId {
        n_bytes: usize,
        place: Place,
    },
    /// Bytes of a reachable blob name this blob, and its hash is not its id.
    NamedHashMismatch {
        id: BlobId,
    },
    /// There are more references than in any real store. The check did not follow some of them.
    CutShort,
}

/// The field that refers to a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub blob: BlobId,
    pub field: String,
    /// True if the model is prompted with the blob.
    pub is_prompt: bool,
}

/// The effect of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The conversation goes on without it.
    History,
    /// The conversation cannot be continued.
    Memory,
}

impl StoreFinding {
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Unreadable { .. }
            | Self::MetaMissing
            | Self::MetaUnreadable { .. }
            | Self::RootAbsent
            | Self::RootMalformed { .. }
            | Self::RootMissing { .. }
            | Self::RootDamaged { .. }
            | Self::RootUndecodable { .. }
            | Self::NotResumable { .. } => Severity::Memory,
            Self::Dangling { place, .. }
            | Self::HashMismatch { place, .. }
            | Self::NotOfKind { place, .. }
            | Self::BlobUnreadable { place, .. }
            | Self::MalformedId { place, .. }
                if place.is_prompt =>
            {
                Severity::Memory
            }
            _ => Severity::History,
        }
    }
}

impl StoreVerdict {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.n_findings == 0
    }

    /// True if the conversation can be continued.
    #[must_use]
    pub fn keeps_memory(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity() < Severity::Memory)
    }

    fn unreadable(why: String) -> Self {
        let findings = vec![StoreFinding::Unreadable { why }];
        Self {
            n_findings: findings.len(),
            findings,
            n_blobs: 0,
            n_bytes: 0,
            n_orphans: 0,
            n_orphan_bytes: 0,
            root: None,
            n_prompt_messages: None,
            n_turns: None,
            candidate: None,
        }
    }
}

/// Checks the store of a session. Fails only if it can say nothing, such as for a store that keeps changing.
///
/// `kept` are other checkpoints that callers need: blobs that they lead to are no orphans.
pub fn verify_store(database: &Path, kept: &[BlobId]) -> Result<StoreVerdict, CopySourceError> {
    match with_source(database, |source| verify(source, database, kept)) {
        Err(CopySourceError::Open(err)) if is_state_of_the_file(&err) => {
            Ok(StoreVerdict::unreadable(ground::with_causes(&err)))
        }
        Err(CopySourceError::Read(err)) if err.is_damage() => {
            Ok(StoreVerdict::unreadable(ground::with_causes(&err)))
        }
        verdict => verdict,
    }
}

fn is_state_of_the_file(err: &OpenChatStoreError) -> bool {
    !matches!(err, OpenChatStoreError::Database(OpenDatabaseError::Changing))
}

pub(crate) fn verify(
    source: &Source,
    database: &Path,
    kept: &[BlobId],
) -> Result<StoreVerdict, CopySourceError> {
    let mut findings = Vec::new();
    let structure = source.store.structural_damage()?;
    if structure.is_some() || source.scanned == Scanned::InPart {
        let why = structure.unwrap_or_else(|| "some rows cannot be reached".to_owned());
        findings.push(StoreFinding::FileDamaged { why });
    }
    if source.store.shortcoming().is_some() {
        findings.push(StoreFinding::LogUnreadable);
    }
    let (root, check) = check(source, database, &mut findings)?;
    let mut n_findings = findings.len() + check.as_ref().map_or(0, |check| check.n_findings);
    let mut verdict = StoreVerdict::unreadable(String::new());
    if let Some(check) = &check {
        if let RootState::Present(latest) = &check.root {
            verdict.n_prompt_messages = Some(latest.n_prompt_messages);
            verdict.n_turns = Some(latest.n_turns);
        }
        findings.extend(check.findings.iter().map(of_finding));
        if check.coverage == Coverage::CutShort {
            findings.push(StoreFinding::CutShort);
            n_findings += 1;
        }
    }
    verdict.n_blobs = source.ids.len() as u64;
    verdict.n_bytes = source.n_bytes();
    if let Some(root) = root {
        let reach = source.reach_from(&[&[root], kept].concat())?;
        let tally = source.tally(&reach);
        verdict.n_orphans = verdict.n_blobs - reach.ids.len() as u64;
        verdict.n_orphan_bytes = verdict.n_bytes.saturating_sub(tally.n_bytes);
        let unlisted =
            reach.damaged.into_iter().filter(|id| *id != root && !is_listed(&findings, id));
        let unlisted: Vec<_> = unlisted.map(|id| StoreFinding::NamedHashMismatch { id }).collect();
        n_findings += unlisted.len();
        findings.extend(unlisted);
    } else {
        verdict.n_orphans = verdict.n_blobs;
        verdict.n_orphan_bytes = verdict.n_bytes;
    }
    verdict.root = root;
    verdict.findings = findings;
    verdict.n_findings = n_findings;
    if let Some(why) = refused_for_its_content(&verdict, database) {
        verdict.findings.push(StoreFinding::NotResumable { why });
        verdict.n_findings += 1;
    }
    if !verdict.keeps_memory() {
        verdict.candidate = best_root(source)?.filter(|candidate| Some(candidate.id) != root);
    }
    Ok(verdict)
}

/// Asks whether a resume would be refused because of the store's content, if no finding says so yet. A session that
/// just began has no root.
fn refused_for_its_content(verdict: &StoreVerdict, database: &Path) -> Option<NotResumable> {
    let is_known = verdict.findings.iter().any(|finding| finding.severity() == Severity::Memory);
    verdict.root.filter(|_| !is_known)?;
    let reason = resume_point(database, None, Depth::Whole).err()?.reason;
    reason.is_of_content().then_some(reason)
}

/// Checks a store without reading much of it: its log, its id, and the history that its index lacks. For a session
/// that can be resumed; [`verify_store`] checks more.
pub fn verify_at_a_glance(database: &Path) -> Result<Vec<StoreFinding>, CopySourceError> {
    again_if_changed(|| {
        let store = ChatStore::open_read_only(database)?;
        let mut findings = Vec::new();
        if store.shortcoming().is_some() {
            findings.push(StoreFinding::LogUnreadable);
        }
        let meta = store.meta()?.ok_or(CopySourceError::NoMeta)?;
        findings.extend(other_session(&meta, database));
        findings.extend(missing_history(&store)?.iter().map(of_finding));
        Ok(findings)
    })
}

/// The finding that the row names another session than the directory.
fn other_session(meta: &ChatMeta, database: &Path) -> Option<StoreFinding> {
    let session = database.parent()?.file_name()?.to_str()?;
    let agent_id = meta.agent_id().filter(|agent_id| *agent_id != session)?.to_owned();
    Some(StoreFinding::AgentIdDiffers { agent_id })
}

/// Reads the meta row and checks everything that its root leads to.
fn check(
    source: &Source,
    database: &Path,
    findings: &mut Vec<StoreFinding>,
) -> Result<(Option<BlobId>, Option<StoreCheck>), CopySourceError> {
    let meta = match source.store.meta() {
        Ok(Some(meta)) => meta,
        Ok(None) => {
            findings.push(StoreFinding::MetaMissing);
            return Ok((None, None));
        }
        Err(ReadMetaError::Database(err)) if !err.is_damage() => return Err(err.into()),
        Err(err) => {
            let why = ground::with_causes(&err);
            findings.push(StoreFinding::MetaUnreadable { why });
            return Ok((None, None));
        }
    };
    findings.extend(other_session(&meta, database));
    let check = check_store(&source.store)?;
    // A session that just began has neither a root nor blobs.
    let is_begun = check.root != RootState::Absent || source.ids.len() > 0;
    findings.extend(of_root(&check.root).filter(|_| is_begun));
    Ok((meta.latest_root().blob(), Some(check)))
}

fn of_root(root: &RootState) -> Option<StoreFinding> {
    Some(match root {
        RootState::Present(_) => return None,
        RootState::Absent => StoreFinding::RootAbsent,
        RootState::Malformed { text } => StoreFinding::RootMalformed { text: text.clone() },
        RootState::Missing { id } => StoreFinding::RootMissing { id: *id },
        RootState::HashMismatch { id } | RootState::Unreadable { id } => {
            StoreFinding::RootDamaged { id: *id }
        }
        RootState::Undecodable { id, why } => {
            StoreFinding::RootUndecodable { id: *id, why: why.to_string() }
        }
    })
}

fn of_finding(finding: &Finding) -> StoreFinding {
    let place = Place {
        blob: finding.referrer.blob,
        field: finding.referrer.field.clone(),
        is_prompt: finding.bears_on == BearsOn::Prompt,
    };
    match &finding.problem {
        Problem::Missing { id } => StoreFinding::Dangling { id: *id, place },
        Problem::HashMismatch { id } => StoreFinding::HashMismatch { id: *id, place },
        Problem::NotOfKind { id, why } => {
            StoreFinding::NotOfKind { id: *id, why: why.to_string(), place }
        }
        Problem::TooLarge { id, .. } | Problem::Unreadable { id } => {
            StoreFinding::BlobUnreadable { id: *id, place }
        }
        Problem::MalformedId { n_bytes } => StoreFinding::MalformedId { n_bytes: *n_bytes, place },
    }
}

fn is_listed(findings: &[StoreFinding], wanted: &BlobId) -> bool {
    findings
        .iter()
        .any(|finding| matches!(finding, StoreFinding::HashMismatch { id, .. } if id == wanted))
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
