//! What of the network a run has, and what is said of its attempts to use it.

use serde::{Deserialize, Serialize};

/// What of the network is inside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// A loopback of its own, and by way of the supervisor the hosts of a list.
    Allowlist,
    /// A loopback of its own and nothing more.
    None,
    /// The host's own.
    Host,
}

/// How a host was asked for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NetVia {
    /// Its name was looked up.
    Dns,
    /// A TLS connection named it.
    Tls,
    /// A proxy was told to connect to it.
    Connect,
}

/// Why something of the network was refused.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NetRefusal {
    /// The host is not on the list.
    NotListed,
    /// The host is on the list, the port is not.
    PortNotListed,
    /// It is not the name of a host, but something that might pass for one.
    BadName,
    /// A connection that does not say whom it wants.
    NoName,
    /// It is not the protocol that is spoken here.
    BadRequest,
    /// A request to a proxy that is not CONNECT.
    PlainHttp,
    /// The name leads to this machine, a private network or a cloud's own service.
    ForbiddenAddress,
    /// The name leads nowhere.
    Unresolved,
    /// Nobody answers there.
    Unreachable,
    /// Too many connections at once.
    TooManyConnections,
    /// The run has moved as much as it may.
    TooMuchData,
    /// The first message took too long.
    TooSlow,
}

impl NetworkMode {
    /// How much of the network it gives: more is wider.
    pub fn width(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Allowlist => 1,
            Self::Host => 2,
        }
    }

    /// The word for it on the command line and in profiles.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::None => "none",
            Self::Host => "host",
        }
    }
}
