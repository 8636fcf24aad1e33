//! Builds an agent's head for a list.

use std::collections::BTreeMap;
use std::path::Path;

use super::records::{Agent, AgentStatus, Run, RunStatus};
use crate::database::with_suffix;
use crate::model::{Activity, Head, Origin, Shelf, StoreKind, TokenUsage, Workspace};
use crate::plain_file;
use crate::sdk::history::agent_blobs::chat_path;
use crate::sdk::records::fields::recorded;
use crate::sdk::store::SdkStore;

/// Builds an agent's head. The runs must be sorted.
pub(super) fn make_head(store: &SdkStore, agent: &Agent, runs: &[Run]) -> Head {
    let origin = Origin { store: StoreKind::Sdk, path: store.path.clone().into(), key: None };
    let mut head = Head::new(&agent.id, origin);
    head.title.clone_from(&agent.name);
    head.workspace = agent.workspace.as_deref().map(Workspace::here);
    head.created =
        recorded(agent.created.or_else(|| runs.iter().filter_map(|run| run.created).min()));
    head.updated = recorded(runs.iter().filter_map(|run| run.updated).chain(agent.updated).max());
    for run in runs {
        head.add_model(run.model.as_deref().unwrap_or_default());
        head.tokens = TokenUsage::sum(head.tokens, run.usage);
    }
    head.activity =
        activity(agent.status, runs.last().map(|run| run.status), &|| store.has_writer());
    head.shelf = match agent.status {
        AgentStatus::Archived => Shelf::Archived,
        _ if runs.is_empty() && agent.checkpoint.is_none() => Shelf::Empty,
        _ => Shelf::Shown,
    };
    head.n_bytes = chat_bytes(&store.directory, &agent.id);
    head.lineage = lineage(agent, runs);
    head
}

/// Returns the agent's runs, and where and when it began. Empty for an agent whose row is lost.
fn lineage(agent: &Agent, runs: &[Run]) -> BTreeMap<i64, String> {
    let mut lineage = BTreeMap::new();
    if let (Some(workspace), Some(created)) = (&agent.workspace, agent.created) {
        lineage.insert(Head::BEGINNING, format!("{created} {workspace}"));
    }
    let numbered = runs.iter().filter_map(|run| Some((run.turn_number?, run.id.clone())));
    lineage.extend(numbered);
    lineage
}

/// `has_writer` tells whether a process may still end an unfinished run.
fn activity(
    agent: AgentStatus,
    last_run: Option<RunStatus>,
    has_writer: &dyn Fn() -> bool,
) -> Activity {
    let unfinished = || if has_writer() { Activity::Live } else { Activity::Interrupted };
    match last_run {
        Some(RunStatus::Queued | RunStatus::Running) => unfinished(),
        Some(RunStatus::Error) => Activity::Failed,
        Some(RunStatus::Expired) => Activity::Interrupted,
        Some(RunStatus::Finished | RunStatus::Cancelled) => Activity::Idle,
        Some(RunStatus::Unknown) | None => match agent {
            AgentStatus::Running => unfinished(),
            AgentStatus::Error => Activity::Failed,
            AgentStatus::Idle | AgentStatus::Archived | AgentStatus::Unknown => Activity::Idle,
        },
    }
}

/// Returns the size of the agent's own database. Events of all agents share one file.
fn chat_bytes(directory: &Path, agent_id: &str) -> Option<u64> {
    let chat = chat_path(directory, agent_id);
    let size = |path: &Path| Some(plain_file::inspect(path).ok()?.len());
    Some(size(&chat)? + size(&with_suffix(&chat, "-wal")).unwrap_or_default())
}
