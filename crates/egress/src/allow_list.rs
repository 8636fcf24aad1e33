//! The hosts that a run may reach, and their ports.

use run_protocol::{AllowedHost, HostName};

/// The list's answer for a host and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    Yes,
    /// The list has the host, but only with other ports.
    AtOtherPorts,
    No,
}

/// The hosts that a run may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<AllowedHost>,
}

impl AllowList {
    /// Decides whether a connection is allowed.
    pub fn decide(&self, name: &HostName, port: u16) -> Listed {
        let ports: Vec<u16> = self
            .entries
            .iter()
            .filter(|entry| entry.has_name(name))
            .map(AllowedHost::port)
            .collect();
        match ports.as_slice() {
            [] => Listed::No,
            ports if ports.contains(&port) => Listed::Yes,
            _ => Listed::AtOtherPorts,
        }
    }

    /// True if the name resolves inside the sandbox: the agent may reach at least one of its ports.
    pub fn knows(&self, name: &HostName) -> bool {
        self.entries.iter().any(|entry| entry.has_name(name))
    }

    pub fn entries(&self) -> &[AllowedHost] {
        &self.entries
    }
}

impl FromIterator<AllowedHost> for AllowList {
    fn from_iter<I: IntoIterator<Item = AllowedHost>>(entries: I) -> Self {
        let mut list = Self::default();
        for entry in entries {
            if !list.entries.contains(&entry) {
                list.entries.push(entry);
            }
        }
        list
    }
}

#[cfg(test)]
#[path = "allow_list_tests.rs"]
mod tests;
