//! Whether an agent reaches the servers that have a `url`.
//!
//! A server that the user names from their own file brings its host along: naming it is the user's word for it. Nobody else
//! widens the list: a host of the repository's choice has to be allowed with `--allow-host`.

use cursor_home::McpServer;
use egress::AllowedHost;
use run_protocol::{NetworkMode, RunSpec};
use sandbox_plan::{Confinement, Profile};

use super::{RunServers, UserMcpError};

/// A server that the run's network does not lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    pub name: String,
    pub why: WhyUnreachable,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyUnreachable {
    #[error("the run has no network")]
    NoNetwork,
    #[error("`{0}` is not on the list of hosts that the run may reach")]
    NotListed(String),
    #[error(
        "its address is not `https://` and the name of a host, and nothing else can be on the list of hosts"
    )]
    NotListable,
}

impl Unreachable {
    /// One thing to try.
    pub fn hint(&self) -> String {
        match &self.why {
            WhyUnreachable::NotListed(host) => format!("allow the host: --allow-host {host}"),
            WhyUnreachable::NoNetwork | WhyUnreachable::NotListable => {
                "leave the server out, or give the run this machine's network: --network host"
                    .to_owned()
            }
        }
    }
}

/// What of the network an agent has.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    mode: NetworkMode,
    allow: Vec<AllowedHost>,
}

impl Reach {
    /// The network of a run, with the hosts of the servers that the user named.
    pub(crate) fn new(
        mode: NetworkMode,
        mut allow: Vec<AllowedHost>,
        servers: &RunServers,
    ) -> Self {
        allow.extend(servers.hosts_of_named());
        Self { mode, allow }
    }

    /// The same for a run that is only checked. What cannot be parsed is refused elsewhere.
    pub(super) fn of_spec(spec: &RunSpec, servers: &RunServers) -> Self {
        let profile = Profile::parse(&spec.profile, &spec.profile_text).ok();
        let confined =
            profile.as_ref().filter(|profile| profile.confinement() != Confinement::None);
        let of_profile = confined.map_or(NetworkMode::Host, Profile::network_mode);
        let of_spec = spec.allow_hosts.iter().filter_map(|host| host.parse().ok());
        let allow = confined.into_iter().flat_map(Profile::allowed_hosts).cloned();
        let mode = spec.network.filter(|_| confined.is_some()).unwrap_or(of_profile);
        Self::new(mode, allow.chain(of_spec).collect(), servers)
    }

    /// Why the agent does not reach a server; `None` where it does.
    pub(crate) fn problem(&self, name: &str, server: &McpServer) -> Option<Unreachable> {
        let host = server.remote_host()?;
        let why = match (self.mode, host_of(server)) {
            (NetworkMode::Host, _) => return None,
            (NetworkMode::None, _) => WhyUnreachable::NoNetwork,
            (NetworkMode::Allowlist, None) => WhyUnreachable::NotListable,
            (NetworkMode::Allowlist, Some(wanted)) => {
                if self.allow.iter().any(|allowed| allowed.covers(&wanted)) {
                    return None;
                }
                WhyUnreachable::NotListed(host.unwrap_or_default())
            }
        };
        Some(Unreachable { name: name.to_owned(), why })
    }

    /// Refuses a server that was asked for by name and is out of reach; lists the others that are.
    pub(crate) fn check(&self, servers: &RunServers) -> Result<Vec<Unreachable>, UserMcpError> {
        let by_name = servers.by_name().find_map(|(name, server)| self.problem(name, server));
        if let Some(unreachable) = by_name {
            return Err(UserMcpError::Unreachable(unreachable));
        }
        let in_force = servers.in_force();
        Ok(in_force.iter().filter_map(|(name, server)| self.problem(name, server)).collect())
    }
}

impl RunServers {
    /// The hosts of the servers that the user named from their own file.
    pub(crate) fn hosts_of_named(&self) -> Vec<AllowedHost> {
        let by_name = self.by_name();
        let of_user = by_name.filter(|(name, _)| self.named.iter().any(|named| named == name));
        of_user.filter_map(|(_, server)| host_of(server)).collect()
    }
}

/// The entry of the list of hosts that leads to a server.
fn host_of(server: &McpServer) -> Option<AllowedHost> {
    let host = server.remote_host()?.ok()?;
    // A star would allow more than the one host.
    host.parse().ok().filter(|_| !host.contains('*'))
}
