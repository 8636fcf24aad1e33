//! Repairs a session: a plan says what will change, the repair works on a copy, and the original is kept.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::replace::Replacement;
use super::root_candidates::RootCandidate;
use super::verify::{StoreVerdict, verify, verify_store};
use crate::chat::{ChatMeta, Severity, StoreFinding};
use crate::session_copy::error::CopyError;
use crate::session_copy::source::{Source, with_source};

/// The steps of a repair, in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairPlan {
    pub actions: Vec<RepairAction>,
    /// Findings that no step can repair.
    pub beyond_repair: Vec<StoreFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairAction {
    /// Write a new database with everything readable in the old one.
    RebuildFile { n_blobs: u64 },
    /// Write a new meta row: the old one cannot be read.
    RewriteMeta,
    /// Set the session id in the store to the name of its directory.
    SetAgentId { agent_id: String },
    /// Point the session to another checkpoint.
    SetRoot {
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        to: RootCandidate,
    },
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The directory with the original files.
    pub backup: PathBuf,
    pub verdict: StoreVerdict,
}

/// Plans the repair of a session. Changes nothing.
pub fn plan_repair(directory: &Path) -> Result<RepairPlan, CopyError> {
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
            finding if finding.severity() == Severity::Memory => {
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
            // A description without a root is useless.
            plan.actions.retain(|action| *action != RepairAction::RewriteMeta);
        }
    }
    plan
}

/// Carries out a plan on a copy, checks the copy, and puts it in the original's place. `root` is the directory of all
/// buckets, or of ACP sessions. The caller holds the session's lease.
pub fn repair(
    directory: &Path,
    root: &Path,
    wanted: &RepairPlan,
    backup: &Path,
    now_ms: i64,
) -> Result<Repaired, CopyError> {
    if wanted.actions.is_empty() {
        return Err(CopyError::NothingToDo);
    }
    let database = directory.join("store.db");
    let replacement = Replacement::begin(directory, root)?;
    with_source(&database, |source| -> Result<(), CopyError> {
        if plan(&verify(source, &database, &[])?, directory) != *wanted {
            return Err(CopyError::PlanIsOld);
        }
        write_copy(source, &replacement, wanted, directory, now_ms)
    })?;
    let verdict = verify_store(&replacement.staging.database(), &[])?;
    // The copy's directory does not have its final name yet.
    let is_expected = |finding: &StoreFinding| {
        matches!(finding, StoreFinding::AgentIdDiffers { .. })
            || wanted.beyond_repair.contains(finding)
            || finding.severity() < Severity::Memory
    };
    let unexpected: Vec<StoreFinding> =
        verdict.findings.iter().filter(|finding| !is_expected(finding)).cloned().collect();
    if !unexpected.is_empty() {
        return Err(CopyError::CopyIsUnsound { findings: unexpected });
    }
    replacement.back_up(backup)?;
    replacement.finish()?;
    let verdict = verify_store(&database, &[])?;
    Ok(Repaired { backup: backup.to_owned(), verdict })
}

/// Writes everything readable, reachable or not.
fn write_copy(
    source: &Source,
    replacement: &Replacement,
    plan: &RepairPlan,
    directory: &Path,
    now_ms: i64,
) -> Result<(), CopyError> {
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
    debug_assert!(meta.latest_root().blob().is_none_or(|root| source.ids.contains(&root)));
    replacement.write(source, |_| true, &meta)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
