//! What a queued run needs and no disk may hold: keys, named secrets, the proxy.

use std::collections::BTreeMap;

use run_protocol::{AgentKind, ChildRequest, RunId, RunSpec};
use run_shim::ShimEnvironment;
use serde::{Deserialize, Serialize};

/// A child that a run asks for, as the run's supervisor words it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildOrder {
    /// What the agent said.
    pub request: ChildRequest,
    /// How much of its own time the parent has left; left out where it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// What the parent logs in with, and its way out.
    #[serde(default)]
    pub brought: Brought,
}

/// A run that was accepted.
#[derive(Debug)]
pub struct Submitted {
    pub run: RunId,
    pub brought: Brought,
}

/// What is known of a run that waits, beside its spec, because it is on no disk: kept in memory until it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// With what the agent logs in.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// The proxy through which the machine gets out; it may have a password in it.
    #[serde(default)]
    pub proxy: Option<String>,
}

/// What the daemon has to know of a run and may not be written down: keys, and secrets that the user named. The
/// simulated agent needs no key that anybody would have to keep.
pub fn brought_for(spec: &RunSpec, environment: &ShimEnvironment) -> Brought {
    let is_kept = |name: &String| match spec.agent.kind {
        AgentKind::Simulated => spec.secrets.contains(name),
        AgentKind::Cursor => true,
    };
    let keys = environment.secrets.iter().filter(|(name, _)| is_kept(name)).cloned().collect();
    Brought { keys, proxy: environment.proxy.clone() }
}
