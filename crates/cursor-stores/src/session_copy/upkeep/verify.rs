//! Checks a store: everything that its root leads to, and the rest of the file.

use std::path::Path;

use serde::Serialize;

use super::root_candidates::{RootCandidate, best_root};
use crate::chat::{
    BlobId, ChatMeta, ChatStore, ChatStoreError, Depth, NotResumable, Scanned, Severity,
    StoreFinding, check_store, meta_row, missing_history, resume_point,
};
use crate::database::OpenDatabaseError;
use crate::session_copy::error::CopyError;
use crate::session_copy::source::{Source, again_if_changed, with_source};

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreVerdict {
    pub findings: Vec<StoreFinding>,
    /// The total number of findings. Only the first thousand are listed.
    pub n_findings: usize,
    pub n_blobs: u64,
    pub n_bytes: u64,
    /// Blobs that no reachable blob names. There are always some, because Cursor deletes nothing.
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

    fn note(&mut self, findings: impl IntoIterator<Item = StoreFinding>) {
        let n_before = self.findings.len();
        self.findings.extend(findings);
        self.n_findings += self.findings.len() - n_before;
    }
}

/// Checks a session's store. Fails only if nothing can be checked, for example because the store keeps changing.
///
/// `kept` lists other checkpoints that callers need: blobs that they lead to are not orphans.
pub fn verify_store(database: &Path, kept: &[BlobId]) -> Result<StoreVerdict, CopyError> {
    let why = match with_source(database, |source| verify(source, database, kept)) {
        Err(CopyError::Open(err)) if is_state_of_the_file(&err) => ground::with_causes(&err),
        Err(CopyError::Read(err)) if err.is_damage() => ground::with_causes(&err),
        verdict => return verdict,
    };
    let mut verdict = StoreVerdict::default();
    verdict.note([StoreFinding::Unreadable { why }]);
    Ok(verdict)
}

fn is_state_of_the_file(err: &ChatStoreError) -> bool {
    !matches!(err, ChatStoreError::Database(OpenDatabaseError::Changing))
}

pub(crate) fn verify(
    source: &Source,
    database: &Path,
    kept: &[BlobId],
) -> Result<StoreVerdict, CopyError> {
    let (n_blobs, n_bytes) = (source.ids.len() as u64, source.n_bytes());
    let mut verdict = StoreVerdict { n_blobs, n_bytes, ..StoreVerdict::default() };
    let structure = source.store.structural_damage()?;
    if structure.is_some() || source.scanned == Scanned::InPart {
        let why = structure.unwrap_or_else(|| "some rows cannot be reached".to_owned());
        verdict.note([StoreFinding::FileDamaged { why }]);
    }
    verdict.note(log_unreadable(&source.store));
    match meta_row(&source.store)? {
        Ok(Some(meta)) => check_conversation(source, database, &meta, &mut verdict)?,
        Ok(None) => verdict.note([StoreFinding::MetaMissing]),
        Err(why) => verdict.note([StoreFinding::MetaUnreadable { why }]),
    }
    match verdict.root {
        Some(root) => count_orphans(source, root, kept, &mut verdict)?,
        None => (verdict.n_orphans, verdict.n_orphan_bytes) = (n_blobs, n_bytes),
    }
    let refused = refused_for_its_content(&verdict, database);
    verdict.note(refused.map(|why| StoreFinding::NotResumable { why }));
    if !verdict.keeps_memory() {
        let own = verdict.root;
        verdict.candidate = best_root(source)?.filter(|candidate| Some(candidate.id) != own);
    }
    Ok(verdict)
}

/// Checks everything that the meta row's root leads to.
fn check_conversation(
    source: &Source,
    database: &Path,
    meta: &ChatMeta,
    verdict: &mut StoreVerdict,
) -> Result<(), CopyError> {
    verdict.note(other_session(meta, database));
    verdict.root = meta.latest_root().blob();
    let check = check_store(&source.store).map_err(|err| match err {
        ChatStoreError::Read(err) => CopyError::Read(err),
        err => CopyError::Meta(err),
    })?;
    match check.root {
        Ok(latest) => {
            verdict.n_prompt_messages = Some(latest.n_prompt_messages);
            verdict.n_turns = Some(latest.n_turns);
        }
        // A session that just began has neither a root nor blobs.
        Err(StoreFinding::RootAbsent) if verdict.n_blobs == 0 => {}
        Err(finding) => verdict.note([finding]),
    }
    verdict.findings.extend(check.findings);
    verdict.n_findings += check.n_findings;
    Ok(())
}

/// Counts the blobs that neither the root nor one of `kept` leads to, and finds damage that no known field names.
fn count_orphans(
    source: &Source,
    root: BlobId,
    kept: &[BlobId],
    verdict: &mut StoreVerdict,
) -> Result<(), CopyError> {
    let reach = source.reach_from(&[&[root], kept].concat())?;
    verdict.n_orphans = verdict.n_blobs - reach.ids.len() as u64;
    verdict.n_orphan_bytes = verdict.n_bytes.saturating_sub(source.tally(&reach).n_bytes);
    for id in reach.damaged.into_iter().filter(|id| *id != root) {
        let is_it = |finding: &StoreFinding| matches!(finding, StoreFinding::HashMismatch { id: known, .. } if *known == id);
        if !verdict.findings.iter().any(is_it) {
            verdict.note([StoreFinding::NamedHashMismatch { id }]);
        }
    }
    Ok(())
}

/// Checks whether a resume would fail because of the store's content, if no finding says so yet. A session that just
/// began has no root.
fn refused_for_its_content(verdict: &StoreVerdict, database: &Path) -> Option<NotResumable> {
    verdict.root.filter(|_| verdict.keeps_memory())?;
    let reason = resume_point(database, None, Depth::Whole).err()?.reason;
    reason.is_of_content().then_some(reason)
}

/// Checks a store without reading much of it: its log, its id, and the history missing from its index. Meant for
/// sessions that can be resumed. [`verify_store`] checks more.
pub fn verify_at_a_glance(database: &Path) -> Result<Vec<StoreFinding>, CopyError> {
    again_if_changed(|| {
        let store = ChatStore::open_read_only(database).map_err(CopyError::Open)?;
        let meta = store.meta().map_err(CopyError::Meta)?.ok_or(CopyError::NoMeta)?;
        let mut findings: Vec<StoreFinding> = log_unreadable(&store).into_iter().collect();
        findings.extend(other_session(&meta, database));
        if let Some(root) = meta.latest_root().blob() {
            findings.extend(missing_history(&store, root)?);
        }
        Ok(findings)
    })
}

fn log_unreadable(store: &ChatStore) -> Option<StoreFinding> {
    store.shortcoming().map(|_| StoreFinding::LogUnreadable)
}

/// Returns a finding if the row and the directory name different sessions.
fn other_session(meta: &ChatMeta, database: &Path) -> Option<StoreFinding> {
    let session = database.parent()?.file_name()?.to_str()?;
    let agent_id = meta.agent_id().filter(|agent_id| *agent_id != session)?.to_owned();
    Some(StoreFinding::AgentIdDiffers { agent_id })
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
