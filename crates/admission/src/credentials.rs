//! The credentials of a queued run, which must never be on disk: keys, named secrets, the proxy.

use run_protocol::{AgentKind, Credentials, NetworkMode, RunId, RunSpec};
use run_shim::ShimEnvironment;

use crate::admit::{SIMULATED_KEY, host_proxy};
use crate::host::Host;
use crate::request::named_secret::LOGIN_KEYS;

/// A new run that waits in the queue.
#[derive(Debug)]
pub struct QueuedRun {
    pub run: RunId,
    pub credentials: Credentials,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The environment for the shim of a queued run: from the run's credentials, or else from the daemon's own environment.
/// `None` if a key that the run needs is in neither.
pub fn shim_environment(
    host: &Host,
    spec: &RunSpec,
    credentials: Option<&Credentials>,
) -> Option<ShimEnvironment> {
    let environment = &host.environment;
    let text = |name: &str| environment.variable(name).and_then(|value| value.to_str());
    let names = spec.queue.iter().flat_map(|terms| &terms.keys);
    let value = |name: &String| {
        let credentials = credentials.and_then(|credentials| credentials.keys.get(name).cloned());
        // Only login keys mean the same in both environments. The user chose the names of all other secrets.
        let of_ours = || text(name).filter(|_| LOGIN_KEYS.contains(&name.as_str()));
        credentials.or_else(|| of_ours().map(ToOwned::to_owned))
    };
    let mut secrets =
        names.map(|name| Some((name.clone(), value(name)?))).collect::<Option<Vec<_>>>()?;
    let has_key = secrets.iter().any(|(name, _)| LOGIN_KEYS.contains(&name.as_str()));
    if spec.agent.kind == AgentKind::Simulated && !has_key {
        secrets.push(("CURSOR_API_KEY".to_owned(), SIMULATED_KEY.to_owned()));
    }
    let proxy = match (credentials, spec.network) {
        (Some(credentials), _) => credentials.proxy.clone(),
        (None, Some(NetworkMode::Host | NetworkMode::None)) => None,
        // Only a shim that filters the network needs it.
        (None, Some(NetworkMode::Allowlist) | None) => {
            host_proxy(environment).ok().flatten().map(|proxy| proxy.address)
        }
    };
    Some(ShimEnvironment { secrets, proxy, log_filter: text("RUST_LOG").map(ToOwned::to_owned) })
}
