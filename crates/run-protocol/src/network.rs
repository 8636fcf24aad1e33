//! The network of a run, and the run's attempts to use it.

use serde::{Deserialize, Serialize};

/// The network that a sandbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// Its own loopback and, through the shim, the hosts on the allow-list.
    Allowlist,
    /// Only its own loopback.
    None,
    /// The host's network.
    Host,
}

/// How the run asked for a host.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NetVia {
    /// It looked up the host's name.
    Dns,
    /// It opened a TLS connection that named the host.
    Tls,
    /// It told the proxy to connect to the host.
    Connect,
}

/// Why the shim refused an attempt to use the network.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NetRefusal {
    /// The host is not on the list.
    NotListed,
    /// The host is not on the list. It is one of the user's registries, and the run has no `--registries`.
    RegistryNotListed,
    /// The host is on the list, but the port is not.
    PortNotListed,
    /// It looks like a host name but is not a valid one.
    BadName,
    /// The connection names no host.
    NoName,
    /// The request does not follow the expected protocol.
    BadRequest,
    /// The request to the proxy is not CONNECT.
    PlainHttp,
    /// The name resolves to this machine, a private network or a cloud's metadata service.
    ForbiddenAddress,
    /// The name does not resolve.
    Unresolved,
    /// The host does not answer.
    Unreachable,
    /// The run has too many connections.
    TooManyConnections,
    /// The run has transferred as much data as it may.
    TooMuchData,
    /// The first message took too long.
    TooSlow,
}

impl NetworkMode {
    /// A number for comparing modes: a mode with a larger number reaches more.
    pub fn width(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Allowlist => 1,
            Self::Host => 2,
        }
    }

    /// The mode's name on the command line and in profiles.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::None => "none",
            Self::Host => "host",
        }
    }
}
