//! The `network` section of a profile.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use egress::AllowedHost;
use run_protocol::NetworkMode;
use serde::Deserialize;

use super::comparison::has_more;
use super::values::{HostPattern, Size, deserialize_from_text};
use crate::origin::Sourced;

/// The `network` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkRules {
    pub(crate) mode: Sourced<NetworkMode>,
    pub(crate) allow: Vec<Sourced<AllowedHost>>,
    /// Profiles that were stored before this key existed allow none.
    #[serde(default)]
    registries: Option<Sourced<bool>>,
    /// Whether addresses of TUN proxies and VPNs are dialled. Without this key, the route of the machine decides.
    #[serde(default)]
    tun: Option<Sourced<bool>>,
    connections: Sourced<NonZeroU32>,
    transfer: Sourced<Size>,
    handshake: Sourced<Span>,
    idle: Sourced<Span>,
    pub(crate) files: Vec<Sourced<HostPattern>>,
}

/// How much of the network a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Connections at the same time.
    pub connections: u32,
    /// Bytes in both directions, over the whole run.
    pub transfer: u64,
    /// The time in which a client must name its host.
    pub handshake: Duration,
    /// The longest silence on a connection.
    pub idle: Duration,
}

/// A time, written as `10s`, `15m` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span(Duration);

impl NetworkRules {
    /// Returns the keys where these rules allow more than `other`.
    pub(super) fn wider_than(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            mode,
            allow,
            registries: _,
            tun: _,
            files,
            connections,
            transfer,
            handshake,
            idle,
        } = self;
        // `false` allows less than no value, and `true` allows more.
        let tun_width = |rules: &Self| rules.tun().map_or(1, |always| if always { 2 } else { 0 });
        let is_covered = |host: &AllowedHost| other.allow.iter().any(|it| it.value.covers(host));
        let is_wider = [
            ("network.mode", mode.value.width() > other.mode.value.width()),
            ("network.allow", allow.iter().any(|host| !is_covered(&host.value))),
            ("network.registries", self.has_registries() && !other.has_registries()),
            ("network.tun", tun_width(self) > tun_width(other)),
            ("network.files", has_more(files, &other.files)),
            ("network.connections", connections.value > other.connections.value),
            ("network.transfer", transfer.value.0 > other.transfer.value.0),
            ("network.handshake", handshake.value.0 > other.handshake.value.0),
            ("network.idle", idle.value.0 > other.idle.value.0),
        ];
        is_wider.into_iter().filter(|(_, is_wider)| *is_wider).map(|(key, _)| key).collect()
    }

    /// Returns true if a run may know about and, on request, reach the user's registries.
    pub(super) fn has_registries(&self) -> bool {
        self.registries.as_ref().is_some_and(|key| key.value)
    }

    /// Returns whether addresses of TUN proxies and VPNs are dialled. `None`: if the machine's route leads through a tunnel.
    pub(crate) fn tun(&self) -> Option<bool> {
        self.tun.as_ref().map(|key| key.value)
    }

    pub(crate) fn limits(&self) -> NetworkLimits {
        NetworkLimits {
            connections: self.connections.value.get(),
            transfer: self.transfer.value.0,
            handshake: self.handshake.value.0,
            idle: self.idle.value.0,
        }
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("h", 3600), ("m", 60), ("s", 1)];
        let found = units.iter().find_map(|(unit, seconds)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok().filter(|count| *count > 0)?;
            count.checked_mul(*seconds)
        });
        found
            .map(|seconds| Self(Duration::from_secs(seconds)))
            .ok_or_else(|| format!("`{text}` is not a time such as 10s, 15m or 1h"))
    }
}

deserialize_from_text!(Span);
