//! Child runs: a run's parent, and the order that starts a child.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{AgentKind, RunId, RunSpec};

/// The run that started this run. It belongs to the session: every run that continues the session has it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The parent.
    pub run: RunId,
    /// The parent's session, which outlives the parent.
    pub session: Uuid,
    /// The number of generations between this run and a run that a person started.
    pub depth: u32,
}

/// A parent's request for a child. The child inherits every field that is left out. No field may allow more than the
/// parent has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildRequest {
    /// The child's task.
    pub prompt: String,
    /// A name for the child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `plan` or `ask`: the child only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The parent's sandbox profile, or `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The network that the child's sandbox has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The hosts that the child may reach. The parent must be allowed to reach each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// The child's time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// The memory limit for all the child's processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// The limit on processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// The limit on the child's disk growth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// An order for a child run. The parent's shim sends it to the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChildOrder {
    /// The agent's request.
    pub request: ChildRequest,
    /// How much of its own time the parent has left. Left out if the parent has no time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// The parent's credentials and proxy.
    #[serde(default, rename = "brought")]
    pub credentials: Credentials,
}

/// Secrets that a queued run needs to start. They must not be on disk: the daemon keeps them in memory until the run
/// starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Brought)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The keys that the agent logs in with, and the secrets that the user named.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// The proxy through which this machine reaches the network. It may contain a password.
    #[serde(default)]
    pub proxy: Option<String>,
}

impl Credentials {
    /// The credentials to keep for a run, without the simulated agent's own key, which opens nothing.
    pub fn of_run(spec: &RunSpec, secrets: &[(String, String)], proxy: Option<String>) -> Self {
        let is_kept = |name: &String| match spec.agent.kind {
            AgentKind::Simulated => spec.secrets.contains(name),
            AgentKind::Cursor => true,
        };
        Self { keys: secrets.iter().filter(|(name, _)| is_kept(name)).cloned().collect(), proxy }
    }
}
