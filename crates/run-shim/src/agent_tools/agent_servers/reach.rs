//! Checks whether an agent can reach the servers that have a `url`.
//!
//! If the user names a server from their own file, its host becomes reachable too. Nothing else widens the list: for a
//! repository's server, the user must allow the host with `--allow-host`.

use cursor_home::McpServer;
use egress::AllowedHost;
use run_protocol::{NetworkMode, RunSpec};
use sandbox_plan::{Confinement, Profile};

use super::{RunServers, UserMcpError};

/// A server that the run's network cannot reach.
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
        "its address is not `https://` with a host name, and only such hosts can be on the list"
    )]
    NotListable,
}

impl Unreachable {
    /// Suggests one thing to try.
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

/// The hosts that an agent may reach.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    mode: NetworkMode,
    allow: Vec<AllowedHost>,
}

impl Reach {
    /// Takes the run's network and adds the hosts of the servers that the user named.
    pub(crate) fn new(
        mode: NetworkMode,
        mut allow: Vec<AllowedHost>,
        servers: &RunServers,
    ) -> Self {
        allow.extend(servers.hosts_of_named());
        Self { mode, allow }
    }

    /// Like [`Self::new`], but for a check before the run. Other code refuses hosts that do not parse.
    pub(super) fn of_spec(spec: &RunSpec, servers: &RunServers) -> Self {
        let profile = Profile::parse(&spec.profile, &spec.profile_text).ok();
        let confined =
            profile.as_ref().filter(|profile| profile.confinement() != Confinement::None);
        let of_profile = confined.map_or(NetworkMode::Host, Profile::network_mode);
        let of_spec = spec.hosts().filter_map(|host| host.parse().ok());
        let allow = confined.into_iter().flat_map(Profile::allowed_hosts).cloned();
        let mode = spec.network.filter(|_| confined.is_some()).unwrap_or(of_profile);
        Self::new(mode, allow.chain(of_spec).collect(), servers)
    }

    /// Returns why the agent cannot reach a server, if it cannot.
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

    /// Refuses a named server that the agent cannot reach. Lists the other unreachable servers.
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
    /// Returns the hosts of the servers that the user named from their own file.
    pub(crate) fn hosts_of_named(&self) -> Vec<AllowedHost> {
        let by_name = self.by_name();
        let of_user = by_name.filter(|(name, _)| self.named.iter().any(|named| named == name));
        of_user.filter_map(|(_, server)| host_of(server)).collect()
    }
}

/// Returns the allow-list entry for a server.
fn host_of(server: &McpServer) -> Option<AllowedHost> {
    let host = server.remote_host()?.ok()?;
    // A `*` would allow more than one host.
    host.parse().ok().filter(|_| !host.contains('*'))
}
