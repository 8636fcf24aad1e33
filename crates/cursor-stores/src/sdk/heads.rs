//! What a list shows of an agent.

use std::collections::BTreeMap;
use std::path::Path;

use super::SdkStore;
use super::agent_blobs::chat_path;
use super::fields::recorded;
use super::records::{Agent, AgentStatus, Run, RunStatus};
use crate::model::{Activity, Head, Origin, Shelf, StoreKind, TokenUsage, Workspace};
use crate::plain_file;

/// Whether somebody could still end a run that has not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Present,
    Gone,
}

/// Makes a head of an agent and its runs, which must be in their order.
pub(super) fn make_head(store: &SdkStore, agent: &Agent, runs: &[Run], writer: Writer) -> Head {
    let origin = Origin { store: StoreKind::Sdk, path: store.path.clone().into(), key: None };
    let mut head = Head::new(&agent.id, origin);
    head.title.clone_from(&agent.name);
    head.workspace = agent.workspace.as_deref().map(Workspace::here);
    head.created =
        recorded(agent.created.or_else(|| runs.iter().filter_map(|run| run.created).min()));
    head.updated = recorded(runs.iter().filter_map(|run| run.updated).chain(agent.updated).max());
    for run in runs {
        head.add_model(run.model.as_deref().unwrap_or_default());
        head.tokens = sum(head.tokens, run.usage);
    }
    head.activity = activity(agent.status, runs.last().map(|run| run.status), writer);
    head.shelf = match agent.status {
        AgentStatus::Archived => Shelf::Archived,
        _ if runs.is_empty() && agent.checkpoint.is_none() => Shelf::Empty,
        _ => Shelf::Shown,
    };
    head.n_bytes = chat_bytes(&store.directory, &agent.id);
    head.lineage = lineage(agent, runs);
    head
}

/// Which runs the agent has, and where and when it began. Of an agent whose row is lost nothing is known.
fn lineage(agent: &Agent, runs: &[Run]) -> BTreeMap<i64, String> {
    let mut lineage = BTreeMap::new();
    if let (Some(workspace), Some(created)) = (&agent.workspace, agent.created) {
        lineage.insert(Head::BEGINNING, format!("{created} {workspace}"));
    }
    let numbered = runs.iter().filter_map(|run| Some((run.turn_number?, run.id.clone())));
    lineage.extend(numbered);
    lineage
}

pub(super) fn sum(known: Option<TokenUsage>, more: Option<TokenUsage>) -> Option<TokenUsage> {
    match (known, more) {
        (Some(known), Some(more)) => Some(known.plus(more)),
        (known, more) => known.or(more),
    }
}

fn activity(agent: AgentStatus, last_run: Option<RunStatus>, writer: Writer) -> Activity {
    let unfinished = match writer {
        Writer::Present => Activity::Live,
        Writer::Gone => Activity::Interrupted,
    };
    match last_run {
        Some(RunStatus::Queued | RunStatus::Running) => unfinished,
        Some(RunStatus::Error) => Activity::Failed,
        Some(RunStatus::Expired) => Activity::Interrupted,
        Some(RunStatus::Finished | RunStatus::Cancelled) => Activity::Idle,
        Some(RunStatus::Unknown) | None => match agent {
            AgentStatus::Running => unfinished,
            AgentStatus::Error => Activity::Failed,
            AgentStatus::Idle | AgentStatus::Archived | AgentStatus::Unknown => Activity::Idle,
        },
    }
}

/// What the agent's own database takes. The events are in one file for all agents.
fn chat_bytes(directory: &Path, agent_id: &str) -> Option<u64> {
    let chat = chat_path(directory, agent_id);
    let mut log = chat.clone().into_os_string();
    log.push("-wal");
    let size = |path: &Path| Some(plain_file::inspect(path).ok()?.len());
    Some(size(&chat)? + size(Path::new(&log)).unwrap_or_default())
}
