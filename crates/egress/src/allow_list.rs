//! Which hosts may be reached, and at which ports.

use run_protocol::{AllowedHost, HostName};

/// What a list says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// At this port.
    Yes,
    /// Only at other ports.
    AtOtherPorts,
    No,
}

/// The hosts that a run may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<AllowedHost>,
}

impl AllowList {
    /// Decides on a connection.
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

    /// Tells whether a name may be known inside: some port of it may be reached.
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
