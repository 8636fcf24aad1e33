//! The network of a run in `allowlist` mode. The shim listens inside the sandbox's network namespace, and dials from
//! its own.
//!
//! ```text
//!   inside (only a loopback)          the shim                                              outside
//!   127.0.0.1:53    names ──────────► EgressControl: is it on the list? ──► 127.0.0.1, or no such name
//!   127.0.0.1:443   TLS server name ► EgressControl ──► dial: resolve, check the address ──► relay, bytes unchanged
//!   127.0.0.1:3128  CONNECT host ───► EgressControl ──► dial                             ──► relay
//!                                       └──► DecisionLog ──► net.allowed, net.denied
//! ```
//!
//! No Caretaker process stays inside. While the gate holds the sandbox, a helper enters its namespace, opens the
//! listening sockets there and passes them to the shim: see `sandbox::entry`.
//!
//! **Invariant:** the shim dials only an address that it checked, for a name that it read once and that is on the list.
//!
//! **Invariant:** no agent can use more memory, connections, time or journal space than the limits allow.

mod connection;
mod dial;
mod dns;
mod doors;
mod egress_control;
mod relay;
mod tunnel;
mod upstream_proxy;

use std::net::Ipv4Addr;
use std::sync::Arc;

use egress::AllowList;
use run_protocol::{LimitKind, NetVia, RunEvent};
use sandbox_plan::NetworkLimits;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use egress_control::EgressControl;

pub(crate) use doors::{Doors, open_doors};
pub use upstream_proxy::{UpstreamProxy, UpstreamProxyError};

/// The address inside the sandbox where the shim listens.
const INSIDE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 443;
const CONNECT_PORT: u16 = 3128;

/// The variables that tell the agent's programs to use the shim as their proxy.
pub(crate) fn proxy_variables() -> [(&'static str, String); 4] {
    let proxy = format!("http://{INSIDE}:{CONNECT_PORT}");
    let not_for = "localhost,127.0.0.1,::1,0.0.0.0".to_owned();
    [
        ("HTTPS_PROXY", proxy.clone()),
        ("https_proxy", proxy),
        ("NO_PROXY", not_for.clone()),
        ("no_proxy", not_for),
    ]
}

/// The hosts that a run may reach, and how.
#[derive(Debug)]
pub(crate) struct NetworkPolicy {
    pub(crate) allow: AllowList,
    /// The user's registries. When the shim refuses one, it names the flag that allows it.
    pub(crate) registries: AllowList,
    /// Whether addresses of TUN proxies and VPNs are dialled. `None`: if the machine's route leads through a tunnel.
    pub(crate) tun: Option<bool>,
    pub(crate) limits: NetworkLimits,
    /// The proxy that the machine itself uses.
    pub(crate) upstream: Option<UpstreamProxy>,
}

/// The network of a running agent. Dropping it closes every connection.
pub(crate) struct Network {
    control: Arc<EgressControl>,
    _tasks: JoinSet<()>,
}

impl Network {
    /// Starts serving. If the event channel is full, only events wait, not connections.
    pub(crate) fn open(
        doors: Doors,
        policy: NetworkPolicy,
        events: mpsc::Sender<RunEvent>,
        exceeded: mpsc::Sender<LimitKind>,
    ) -> Self {
        let control = Arc::new(EgressControl::new(policy, exceeded));
        let mut tasks = JoinSet::new();
        tasks.spawn(egress_control::report_decisions(control.clone(), events));
        tasks.spawn(dns::answer(doors.names, control.clone()));
        let listeners = [
            (doors.names_over_tcp, NetVia::Dns),
            (doors.tls, NetVia::Tls),
            (doors.connect, NetVia::Connect),
        ];
        for (listener, via) in listeners {
            tasks.spawn(connection::serve_all(listener, via, control.clone()));
        }
        Self { control, _tasks: tasks }
    }

    /// Ends every connection, and returns the events that were not sent yet.
    pub(crate) fn close(self) -> Vec<RunEvent> {
        self.control.unreported()
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
