//! Mending a session: what can be done is said first, done on a copy, and the original is kept.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::reachable::{AsSourceError, CopySourceError, Source, with_source};
use super::replace::{ReplaceError, Replacement};
use super::root_candidates::RootCandidate;
use super::store_writer::{StoreWriter, WriteStoreError};
use super::verify::{StoreFinding, StoreVerdict, verify, verify_store};
use crate::chat::{BlobId, ChatMeta, LatestRoot};

/// What would be done to a session, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairPlan {
    pub actions: Vec<RepairAction>,
    /// What is wrong and stays so.
    pub beyond_repair: Vec<StoreFinding>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairAction {
    /// Write a new database with everything that can be read of the old one.
    RebuildFile { n_blobs: u64 },
    /// Write a new description of the session into the store: the old one cannot be read.
    RewriteMeta,
    /// Say in the store that it is of the session whose directory it lies in.
    SetAgentId { agent_id: String },
    /// Point the session to another checkpoint.
    SetRoot {
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        to: RootCandidate,
    },
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// Where the original is kept.
    pub backup: PathBuf,
    pub verdict: StoreVerdict,
}

/// Says why a session was not mended. It is as it was then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    #[error(transparent)]
    Source(#[from] CopySourceError),
    #[error("the session is not what it was when the plan was made")]
    PlanIsOld,
    #[error("there is nothing that could be done")]
    NothingToDo,
    #[error("the mended copy cannot be written")]
    Write(#[from] WriteStoreError),
    #[error("the original cannot be kept at `{}`", .path.display())]
    BackUp { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// A mistake of ours, found before it did harm.
    #[error("the mended copy is not as it should be")]
    CopyIsUnsound { findings: Vec<StoreFinding> },
}

impl AsSourceError for RepairError {
    fn as_source_error(&self) -> Option<&CopySourceError> {
        match self {
            Self::Source(err) => Some(err),
            _ => None,
        }
    }
}

/// Says what can be done for a session. Changes nothing.
pub fn plan_repair(directory: &Path) -> Result<RepairPlan, RepairError> {
    let verdict = verify_store(&directory.join("store.db"), &[])?;
    Ok(plan(&verdict, directory))
}

fn plan(verdict: &StoreVerdict, directory: &Path) -> RepairPlan {
    let mut plan = RepairPlan { actions: Vec::new(), beyond_repair: Vec::new() };
    let mut root_is_lost = None;
    for finding in &verdict.findings {
        match finding {
            StoreFinding::FileDamaged { .. } => {
                plan.actions.push(RepairAction::RebuildFile { n_blobs: verdict.n_blobs });
            }
            StoreFinding::MetaMissing | StoreFinding::MetaUnreadable { .. } => {
                plan.actions.push(RepairAction::RewriteMeta);
                root_is_lost.get_or_insert(finding);
            }
            StoreFinding::AgentIdDiffers { .. } => {
                let name = directory.file_name().and_then(|name| name.to_str());
                match name {
                    Some(name) => {
                        plan.actions.push(RepairAction::SetAgentId { agent_id: name.to_owned() })
                    }
                    None => plan.beyond_repair.push(finding.clone()),
                }
            }
            finding if finding.severity() == super::Severity::Memory => {
                root_is_lost.get_or_insert(finding);
            }
            finding => plan.beyond_repair.push(finding.clone()),
        }
    }
    match (root_is_lost, verdict.candidate) {
        (None, _) => {}
        (Some(_), Some(to)) => {
            let from = verdict.root.map(|root| root.to_string());
            plan.actions.push(RepairAction::SetRoot { from, to });
        }
        (Some(finding), None) => {
            plan.beyond_repair.push(finding.clone());
            // A description that leads nowhere is no better than none.
            plan.actions.retain(|action| *action != RepairAction::RewriteMeta);
        }
    }
    plan
}

/// Does what a plan says: on a copy, which is checked and put in the original's place. `root` is the directory of all
/// buckets, or of ACP sessions; the caller holds the session's lease.
pub fn repair(
    directory: &Path,
    root: &Path,
    wanted: &RepairPlan,
    backup: &Path,
    now_ms: i64,
) -> Result<Repaired, RepairError> {
    if wanted.actions.is_empty() {
        return Err(RepairError::NothingToDo);
    }
    let database = directory.join("store.db");
    let replacement = Replacement::begin(directory, root)?;
    with_source(&database, |source| -> Result<(), RepairError> {
        if plan(&verify(source, &database, &[])?, directory) != *wanted {
            return Err(RepairError::PlanIsOld);
        }
        write_copy(source, &replacement, wanted, directory, now_ms)
    })?;
    let verdict = verify_store(&replacement.staging.database(), &[])?;
    // Its directory has another name as yet.
    let is_expected = |finding: &StoreFinding| {
        matches!(finding, StoreFinding::AgentIdDiffers { .. })
            || wanted.beyond_repair.contains(finding)
            || finding.severity() < super::Severity::Memory
    };
    let unexpected: Vec<StoreFinding> =
        verdict.findings.iter().filter(|finding| !is_expected(finding)).cloned().collect();
    if !unexpected.is_empty() {
        return Err(RepairError::CopyIsUnsound { findings: unexpected });
    }
    replacement
        .back_up(backup)
        .map_err(|source| RepairError::BackUp { path: backup.to_owned(), source })?;
    replacement.finish()?;
    let verdict = verify_store(&database, &[])?;
    Ok(Repaired { backup: backup.to_owned(), verdict })
}

/// Writes everything that can be read, whether anything names it or not.
fn write_copy(
    source: &Source,
    replacement: &Replacement,
    plan: &RepairPlan,
    directory: &Path,
    now_ms: i64,
) -> Result<(), RepairError> {
    let mut meta = match source.store.meta() {
        Ok(Some(meta)) => meta,
        _ => {
            let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ChatMeta::new(name, now_ms)
        }
    };
    for action in &plan.actions {
        match action {
            RepairAction::RebuildFile { .. } | RepairAction::RewriteMeta => {}
            RepairAction::SetAgentId { agent_id } => meta.set_agent_id(agent_id),
            RepairAction::SetRoot { to, .. } => meta.set_latest_root(to.id),
        }
    }
    debug_assert!(root_of(&meta).is_none_or(|root| source.ids.contains(&root)));
    let path = replacement.staging.database();
    // What an attempt before this one left.
    std::fs::remove_file(&path).ok();
    let mut writer = StoreWriter::create(&path)?;
    source.visit(|_| true, |id, data| writer.put(id, data).map_err(RepairError::from))?;
    writer.finish(&meta)?;
    Ok(())
}

fn root_of(meta: &ChatMeta) -> Option<BlobId> {
    match meta.latest_root() {
        LatestRoot::Blob(id) => Some(id),
        LatestRoot::Absent | LatestRoot::Malformed(_) => None,
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
