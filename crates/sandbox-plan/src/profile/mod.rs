//! A profile: a TOML file that says what a sandboxed process may see and reach.

mod caches;
mod comparison;
#[cfg(test)]
mod format_tests;
mod layers;
mod limits;
mod network;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsStr;

use egress::AllowedHost;
use layers::Merged;
use run_protocol::NetworkMode;
use serde::Deserialize;
use toml::de::DeTable;

use crate::origin::{Origin, Sourced};
use crate::seccomp::FilterName;
pub use caches::Links;
pub(crate) use caches::{CachePath, CacheRules, CacheTool};
pub use limits::{MemoryRule, ProfileLimits};
pub use network::NetworkLimits;
pub(crate) use network::NetworkRules;
pub use values::{Access, Confinement};
use values::{DevMount, OnlyReadOnly, ProcMount};
pub(crate) use values::{
    GeneratedFile, HostName, HostPattern, MissingNames, Namespace, ProtectedKind, ProtectedName,
    RootCaller, ShownName, Size, Unprotected, VariableName, VariablePattern,
};

/// The built-in profiles.
const BUILTIN: [(&str, &str); 3] = [
    ("default", include_str!("../../../../sandbox/profiles/default.toml")),
    ("off", include_str!("../../../../sandbox/profiles/off.toml")),
    ("strict", include_str!("../../../../sandbox/profiles/strict.toml")),
];

/// Returns the names and texts of the built-in profiles.
pub fn builtin_profiles() -> &'static [(&'static str, &'static str)] {
    &BUILTIN
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("{profile}.toml:{line}: {message}")]
    Text { profile: String, line: usize, message: String },
    #[error("{profile}.toml: `namespaces.own` must have `{namespace}`")]
    NamespaceNeeded { profile: String, namespace: &'static str },
}

/// A parsed and checked profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: String,
    extends: Option<String>,
    description: String,
    rules: Option<Rules>,
}

/// The keys outside the sections.
#[derive(Debug, Deserialize)]
struct Head {
    description: Sourced<String>,
    confinement: Sourced<Confinement>,
}

/// The sections of a profile with a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    pub(crate) caller: CallerRules,
    pub(crate) namespaces: NamespaceRules,
    pub(crate) network: NetworkRules,
    pub(crate) system: SystemRules,
    pub(crate) kernel: KernelRules,
    pub(crate) temporary: TemporaryRules,
    pub(crate) home: HomeRules,
    pub(crate) tools: ToolRules,
    pub(crate) run: RunRules,
    pub(crate) workspace: WorkspaceRules,
    pub(crate) environment: EnvironmentRules,
    pub(crate) seccomp: SeccompRules,
    /// Missing in profiles that older versions stored.
    #[serde(default)]
    pub(crate) caches: Option<CacheRules>,
    limits: ProfileLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallerRules {
    pub(crate) root: Sourced<RootCaller>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceRules {
    pub(crate) own: Vec<Sourced<Namespace>>,
    pub(crate) hostname: Sourced<HostName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemRules {
    pub(crate) read_only: Vec<Sourced<HostPattern>>,
    pub(crate) links: Vec<Sourced<HostPattern>>,
    pub(crate) etc: Vec<Sourced<HostPattern>>,
    pub(crate) generated: Vec<Sourced<GeneratedFile>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelRules {
    pub(crate) proc: Sourced<ProcMount>,
    pub(crate) sysctl: Sourced<OnlyReadOnly>,
    pub(crate) dev: Sourced<DevMount>,
    pub(crate) shm: Sourced<Size>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemporaryRules {
    pub(crate) tmp: Sourced<Size>,
    pub(crate) run: Sourced<Size>,
    pub(crate) parents: Sourced<Size>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HomeRules {
    pub(crate) size: Sourced<Size>,
    /// Missing in profiles that older versions stored.
    #[serde(default)]
    pub(crate) hooks: Option<Sourced<Unprotected>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolRules {
    pub(crate) expose: Vec<Sourced<HostPattern>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRules {
    pub(crate) program: Sourced<OnlyReadOnly>,
    pub(crate) sockets: Sourced<OnlyReadOnly>,
    pub(crate) dot_cursor: Sourced<OnlyReadOnly>,
    pub(crate) chats: Sourced<Access>,
    pub(crate) data: Sourced<Access>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceRules {
    pub(crate) access: Sourced<Access>,
    pub(crate) show: Vec<Sourced<ShownName>>,
    pub(crate) protect: Vec<Sourced<ProtectedName>>,
    pub(crate) missing: Sourced<MissingNames>,
    pub(crate) unprotected: Sourced<Unprotected>,
    pub(crate) git: Sourced<Access>,
    pub(crate) git_protect: Vec<Sourced<ProtectedName>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvironmentRules {
    pub(crate) run: Vec<Sourced<VariableName>>,
    pub(crate) pass: Vec<Sourced<VariablePattern>>,
    pub(crate) set: BTreeMap<VariableName, Sourced<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeccompRules {
    pub(crate) filters: Vec<Sourced<FilterName>>,
}

impl Profile {
    /// Reads a profile. It may extend a built-in profile.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let (extends, head, rules) = read(name, text)?;
        if let Some(rules) = &rules {
            // Without a user namespace, no mount is safe from the agent. Without a process namespace, the shim cannot
            // end all of a run's processes.
            for (needed, namespace) in [(Namespace::User, "user"), (Namespace::Pid, "pid")] {
                if rules.namespaces.own.iter().all(|own| own.value != needed) {
                    let profile = name.to_owned();
                    return Err(ProfileError::NamespaceNeeded { profile, namespace });
                }
            }
        }
        Ok(Self { name: name.to_owned(), extends, description: head.description.value, rules })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the profile that this one extends.
    pub fn extends(&self) -> Option<&str> {
        self.extends.as_deref()
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the network mode. Without a sandbox it is the host's.
    pub fn network_mode(&self) -> NetworkMode {
        self.rules.as_ref().map_or(NetworkMode::Host, |rules| rules.network.mode.value)
    }

    /// Returns the hosts that the agent may reach in `allowlist` mode.
    pub fn allowed_hosts(&self) -> impl Iterator<Item = &AllowedHost> {
        self.rules.iter().flat_map(|rules| &rules.network.allow).map(|entry| &entry.value)
    }

    /// Returns true if a run may know about and, on request, reach the user's registries. Always false without a
    /// sandbox.
    pub fn has_registries(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.network.has_registries())
    }

    pub fn confinement(&self) -> Confinement {
        match self.rules {
            Some(_) => Confinement::Bubblewrap,
            None => Confinement::None,
        }
    }

    /// Returns true if the profile refuses root.
    pub fn refuses_root(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.caller.root.value == RootCaller::Refuse)
    }

    /// Returns true if the profile refuses a user who has hooks, because they do not apply in the sandbox.
    pub fn refuses_hooks(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.home.refuses_hooks())
    }

    /// Returns true if a host variable enters the sandbox. Without a sandbox, the profile lets none in.
    pub fn passes_variable(&self, name: &OsStr) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.passes(name).is_some())
    }

    /// Returns the resource limits of a sandboxed run. Without a sandbox, the profile has none.
    pub fn limits(&self) -> Option<&ProfileLimits> {
        self.rules.as_ref().map(|rules| &rules.limits)
    }

    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }
}

/// Reads a profile with the profile that it extends. Returns the extended profile's name, the keys outside sections,
/// and the sections.
fn read(name: &str, text: &str) -> Result<(Option<String>, Head, Option<Rules>), ProfileError> {
    let mut merged = Merged::read(name, text)?;
    let mut sections = std::mem::take(&mut merged.table);
    let mut head = DeTable::new();
    for key in ["description", "confinement"] {
        if let Some((key, value)) = sections.remove_entry(key) {
            head.insert(key, value);
        }
    }
    let head: Head = merged.deserialize(head)?;
    let rules = match head.confinement.value {
        Confinement::None => None,
        Confinement::Bubblewrap => Some(merged.deserialize(sections)?),
    };
    Ok((merged.extends, head, rules))
}

impl HomeRules {
    pub(crate) fn refuses_hooks(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.value == Unprotected::Refuse)
    }
}

impl Rules {
    /// Returns the profile line that lets a host variable into the sandbox.
    pub(crate) fn passes(&self, name: &OsStr) -> Option<&Origin> {
        if values::never_inherited(name) {
            return None;
        }
        let pass = &self.environment.pass;
        pass.iter().find(|entry| entry.value.fits(name)).map(|entry| &entry.origin)
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
