//! What a queued run needs and no disk may hold: keys, named secrets, the proxy.

use std::collections::BTreeMap;

use run_protocol::{AgentKind, ChildRequest, NetworkMode, RunId, RunSpec};
use run_shim::ShimEnvironment;
use serde::{Deserialize, Serialize};

use crate::admit::{SIMULATED_KEY, host_proxy};
use crate::host::Host;
use crate::request::named_secret::LOGIN_KEYS;

/// A child that a run asks for, as the run's supervisor words it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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

/// What the shim of a queued run gets: what was brought for the run, and otherwise what is in the daemon's own
/// environment. `None` if a key that the run logs in with is in neither.
pub fn shim_environment(
    host: &Host,
    spec: &RunSpec,
    brought: Option<&Brought>,
) -> Option<ShimEnvironment> {
    let environment = &host.environment;
    let text = |name: &str| environment.variable(name).and_then(|value| value.to_str());
    let names = spec.queue.iter().flat_map(|terms| &terms.keys);
    let value = |name: &String| {
        let brought = brought.and_then(|brought| brought.keys.get(name).cloned());
        // Only keys of the agent's mean the same here and there; a secret that the user named is whatever they said.
        let of_ours = || text(name).filter(|_| LOGIN_KEYS.contains(&name.as_str()));
        brought.or_else(|| of_ours().map(ToOwned::to_owned))
    };
    let mut secrets =
        names.map(|name| Some((name.clone(), value(name)?))).collect::<Option<Vec<_>>>()?;
    let has_key = secrets.iter().any(|(name, _)| LOGIN_KEYS.contains(&name.as_str()));
    if spec.agent.kind == AgentKind::Simulated && !has_key {
        secrets.push(("CURSOR_API_KEY".to_owned(), SIMULATED_KEY.to_owned()));
    }
    let proxy = match (brought, spec.network) {
        (Some(brought), _) => brought.proxy.clone(),
        (None, Some(NetworkMode::Host | NetworkMode::None)) => None,
        // Only a supervisor that answers for the network has a use for it.
        (None, Some(NetworkMode::Allowlist) | None) => {
            host_proxy(environment).ok().flatten().map(|proxy| proxy.address)
        }
    };
    Some(ShimEnvironment { secrets, proxy, log_filter: text("RUST_LOG").map(ToOwned::to_owned) })
}
