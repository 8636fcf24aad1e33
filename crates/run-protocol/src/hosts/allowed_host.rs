//! An entry in the allow-list of hosts.

use std::fmt;
use std::str::FromStr;

use super::host_name::{HostName, HostNameError};
use crate::written::text_serde;

/// The port of an entry that names no port.
pub const HTTPS_PORT: u16 = 443;

/// An entry: `api.example.org`, or `*.example.org` for every name below `example.org`, but not for `example.org`
/// itself. Either may end in `:port`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedHost {
    names: Names,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Names {
    Exactly(HostName),
    Below(HostName),
}

/// Why a text is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllowedHostError {
    #[error("`{0}` is a URL; write only the host: `{1}`")]
    Url(String, String),
    #[error("`{0}` allows every host; use the network mode `host` for that")]
    Everything(String),
    #[error("`{0}`: a `*` may only be the first label, as in `*.example.org`")]
    Star(String),
    #[error("`{text}` does not end in a port from 1 to 65535")]
    Port { text: String },
    #[error("`{text}` is not a host name: {reason}")]
    Name { text: String, reason: HostNameError },
}

impl FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(text: &str) -> Result<Self, AllowedHostError> {
        if let Some((_, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            return Err(AllowedHostError::Url(text.to_owned(), host.to_owned()));
        }
        if matches!(text, "*" | "*.*" | "*:*") {
            return Err(AllowedHostError::Everything(text.to_owned()));
        }
        let bad_name = |reason| AllowedHostError::Name { text: text.to_owned(), reason };
        let (host, port) = match text.split_once(':') {
            // More than one colon: an IPv6 address.
            Some((_, rest)) if rest.contains(':') => {
                return Err(bad_name(HostNameError::Address));
            }
            Some((host, port)) => {
                // `parse` would accept a sign and leading zeros.
                let is_plain =
                    port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
                let port = port.parse().ok().filter(|port| is_plain && *port > 0);
                let port = port.ok_or_else(|| AllowedHostError::Port { text: text.to_owned() })?;
                (host, port)
            }
            None => (text, HTTPS_PORT),
        };
        let names = match host.strip_prefix("*.") {
            Some(parent) if !parent.contains('*') => {
                Names::Below(parent.parse().map_err(bad_name)?)
            }
            None if !host.contains('*') => Names::Exactly(host.parse().map_err(bad_name)?),
            _ => return Err(AllowedHostError::Star(text.to_owned())),
        };
        Ok(Self { names, port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            Names::Exactly(name) => write!(formatter, "{name}")?,
            Names::Below(parent) => write!(formatter, "*.{parent}")?,
        }
        match self.port {
            HTTPS_PORT => Ok(()),
            port => write!(formatter, ":{port}"),
        }
    }
}

impl AllowedHost {
    /// The port at which the run may reach the host.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// True if the entry allows this name on some port.
    pub fn has_name(&self, name: &HostName) -> bool {
        match &self.names {
            Names::Exactly(own) => own == name,
            Names::Below(parent) => name.is_below(parent),
        }
    }

    /// True if this entry allows everything that the other entry allows.
    pub fn covers(&self, other: &Self) -> bool {
        let names = match (&self.names, &other.names) {
            (_, Names::Exactly(name)) => self.has_name(name),
            (Names::Below(own), Names::Below(parent)) => own == parent || parent.is_below(own),
            (Names::Exactly(_), Names::Below(_)) => false,
        };
        names && self.port == other.port
    }
}

text_serde!(AllowedHost, "a host, as in `api.example.org` or `*.example.org:8443`");
