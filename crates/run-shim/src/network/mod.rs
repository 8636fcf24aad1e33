//! The network of a run in the mode `allowlist`: the supervisor listens inside the sandbox's own network namespace, and
//! dials outside from its own.
//!
//! ```text
//!   inside (nothing but a loopback)                  the shim                              outside
//!   127.0.0.1:53    names ───────────────► desk: is it on the list? ──► 127.0.0.1, or no such name
//!   127.0.0.1:443   TLS, by its server name ──► desk ──► dial: resolve, check the address ──► relay, bytes as they are
//!   127.0.0.1:3128  CONNECT host:port ────────► desk ──► dial                             ──► relay
//!                                              └──► ledger ──► net.allowed, net.denied
//! ```
//!
//! No process of ours is inside. The listening sockets are made there by a helper that enters the namespace while the
//! sandbox is held at the gate, and hands them out: see `entry`.
//!
//! **Invariant:** what is dialled is an address that was checked, for a name that was read once and is on the list.
//!
//! **Invariant:** whatever happens inside, memory, connections, time and the journal stay within their limits.

mod desk;
mod dial;
mod dns;
mod doors;
mod passage;
mod relay;
mod upstream;

use std::net::Ipv4Addr;
use std::sync::Arc;

use egress::AllowList;
use run_protocol::{LimitKind, RunEvent};
use sandbox_plan::NetworkLimits;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use desk::Desk;
use passage::Door;

pub(crate) use doors::{Doors, open_doors};
pub use upstream::{UpstreamProxy, UpstreamProxyError};

/// Where we listen inside.
const INSIDE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 443;
const CONNECT_PORT: u16 = 3128;

/// What the agent's programs are told about the way out.
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

/// What a run may reach, and how.
#[derive(Debug)]
pub(crate) struct NetworkPolicy {
    pub(crate) allow: AllowList,
    pub(crate) limits: NetworkLimits,
    /// The proxy that the host itself needs to get out.
    pub(crate) upstream: Option<UpstreamProxy>,
}

/// The network of a run under way. Dropping it closes every connection.
pub(crate) struct Network {
    desk: Arc<Desk>,
    _tasks: JoinSet<()>,
}

impl Network {
    /// Begins to serve. Events are sent when there is room for them; nothing but their telling waits for it.
    pub(crate) fn open(
        doors: Doors,
        policy: NetworkPolicy,
        events: mpsc::Sender<RunEvent>,
        exceeded: mpsc::Sender<LimitKind>,
    ) -> Self {
        let desk = Arc::new(Desk::new(policy, exceeded));
        let mut tasks = JoinSet::new();
        tasks.spawn(desk::tell(desk.clone(), events));
        tasks.spawn(dns::answer(doors.names, desk.clone()));
        let listeners = [
            (doors.names_over_tcp, Door::Names),
            (doors.tls, Door::Tls),
            (doors.connect, Door::Connect),
        ];
        for (listener, door) in listeners {
            tasks.spawn(passage::accept(listener, door, desk.clone()));
        }
        Self { desk, _tasks: tasks }
    }

    /// Ends every connection, and returns what was not told yet.
    pub(crate) fn close(self) -> Vec<RunEvent> {
        self.desk.untold()
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
