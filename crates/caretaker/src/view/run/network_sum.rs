//! Sums up a run's attempts to use the network.

use std::collections::BTreeMap;

use run_protocol::{NetRefusal, NetVia, NetworkMode, RunEvent};
use serde::Serialize;

use crate::view::run::network_words;

/// The sums, as `show --json` prints them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NetworkSum {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<NetworkMode>,
    /// Hosts that the run connected to.
    pub(crate) allowed: Vec<Reached>,
    pub(crate) denied: Vec<Refused>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reached {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    /// The number of connections.
    pub(crate) count: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) via: NetVia,
    pub(crate) reason: NetRefusal,
    pub(crate) detail: Option<String>,
    pub(crate) count: u64,
    /// The flag that would have allowed the attempt.
    pub(crate) allow_with: Option<String>,
}

/// Host, port, protocol, reason, and details of the reason.
type Attempt = (Option<String>, Option<u16>, NetVia, NetRefusal, Option<String>);

/// Adds up events one by one.
#[derive(Debug, Default)]
pub(crate) struct NetworkSummary {
    mode: Option<NetworkMode>,
    allowed: BTreeMap<(Option<String>, Option<u16>), u64>,
    denied: BTreeMap<Attempt, u64>,
}

impl NetworkSummary {
    pub(crate) fn observe(&mut self, event: RunEvent) {
        match event {
            RunEvent::SandboxReady { network, .. } => self.mode = network,
            // A name lookup is not a connection.
            RunEvent::NetAllowed { via: NetVia::Dns, .. } => {}
            RunEvent::NetAllowed { host, port, count, .. } => {
                *self.allowed.entry((host, port)).or_default() += count;
            }
            RunEvent::NetDenied { host, port, via, reason, detail, count } => {
                *self.denied.entry((host, port, via, reason, detail)).or_default() += count;
            }
            _ => {}
        }
    }

    pub(crate) fn finish(self) -> NetworkSum {
        let reached = |((host, port), count)| Reached { host, port, count };
        let refused = |((host, port, via, reason, detail), count): (Attempt, u64)| {
            let allow_with = network_words::flag(host.as_deref(), port, reason);
            Refused { host, port, via, reason, detail, count, allow_with }
        };
        NetworkSum {
            mode: self.mode,
            allowed: self.allowed.into_iter().map(reached).collect(),
            denied: self.denied.into_iter().map(refused).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn equal_events_are_added_up_and_dns_lookups_do_not_count_as_connections() {
        let mut summary = NetworkSummary::default();
        let host = || Some("a.example".to_owned());
        let allowed =
            |via, count| RunEvent::NetAllowed { host: host(), port: Some(443), via, count };
        let denied = |count| RunEvent::NetDenied {
            host: Some("b.example".to_owned()),
            port: Some(22),
            via: NetVia::Connect,
            reason: NetRefusal::NotListed,
            detail: None,
            count,
        };
        for event in [
            allowed(NetVia::Dns, 3),
            allowed(NetVia::Tls, 1),
            allowed(NetVia::Connect, 4),
            denied(1),
            denied(9),
        ] {
            summary.observe(event);
        }
        let sum = summary.finish();
        assert_eq!(sum.allowed, [Reached { host: host(), port: Some(443), count: 5 }]);
        assert_eq!(sum.denied.len(), 1);
        assert_eq!(sum.denied[0].count, 10);
        assert_eq!(sum.denied[0].allow_with.as_deref(), Some("--allow-host b.example:22"));
    }
}
