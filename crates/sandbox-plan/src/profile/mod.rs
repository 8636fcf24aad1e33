//! A profile: what a sandboxed process may see and reach, as its TOML file says.

mod comparison;
#[cfg(test)]
mod format_tests;
mod layers;
mod limits;
mod network;
mod raw;
mod values;

use std::ffi::OsStr;

use egress::AllowedHost;
use layers::{Layer, Layers};
use run_protocol::NetworkMode;

use crate::origin::{Origin, Sourced};
use crate::seccomp::FilterName;
pub use limits::{ProfileLimit, ProfileLimits};
pub use network::NetworkLimits;
pub(crate) use network::NetworkRules;
pub use values::{Access, Confinement};
pub(crate) use values::{
    HostName, HostPattern, MissingNames, Namespace, ProtectedKind, ProtectedName, RootCaller,
    ShownName, Size, Unprotected, VariablePattern,
};

/// The profiles that are part of the program.
const BUILTIN: [(&str, &str); 3] = [
    ("default", include_str!("../../../../sandbox/profiles/default.toml")),
    ("off", include_str!("../../../../sandbox/profiles/off.toml")),
    ("strict", include_str!("../../../../sandbox/profiles/strict.toml")),
];

/// Returns the names and texts of the profiles that are part of the program.
pub fn builtin_profiles() -> &'static [(&'static str, &'static str)] {
    &BUILTIN
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("{profile}.toml:{line}: {message}")]
    Text { profile: String, line: usize, message: String },
    #[error("{profile}.toml:{line}: {reason}")]
    Value { profile: String, line: usize, reason: String },
    #[error(
        "{profile}.toml:{line}: `{base}` is not a built-in profile, and only those can be extended"
    )]
    UnknownBase { profile: String, line: usize, base: String },
    #[error("{profile}.toml: `{key}` is missing; give it, or begin with `extends = \"default\"`")]
    MissingKey { profile: String, key: &'static str },
    #[error("{profile}.toml: `namespaces.own` must have `{namespace}`")]
    NamespaceNeeded { profile: String, namespace: &'static str },
}

/// A profile that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: String,
    extends: Option<String>,
    description: String,
    rules: Option<Rules>,
}

/// What a profile with a sandbox says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) root_caller: Sourced<RootCaller>,
    pub(crate) namespaces: Vec<Sourced<Namespace>>,
    pub(crate) hostname: Sourced<HostName>,
    pub(crate) network: NetworkRules,
    pub(crate) system_read_only: Vec<Sourced<HostPattern>>,
    pub(crate) system_links: Vec<Sourced<HostPattern>>,
    pub(crate) etc: Vec<Sourced<HostPattern>>,
    pub(crate) generated: Vec<Sourced<GeneratedFile>>,
    pub(crate) proc: Origin,
    pub(crate) sysctl: Origin,
    pub(crate) dev: Origin,
    pub(crate) shm: Sourced<Size>,
    pub(crate) tmp: Sourced<Size>,
    pub(crate) run: Sourced<Size>,
    pub(crate) parents: Sourced<Size>,
    pub(crate) home: Sourced<Size>,
    pub(crate) expose: Vec<Sourced<HostPattern>>,
    pub(crate) program: Origin,
    pub(crate) sockets: Origin,
    pub(crate) dot_cursor: Origin,
    pub(crate) chats: Sourced<Access>,
    pub(crate) data: Sourced<Access>,
    pub(crate) workspace: Sourced<Access>,
    pub(crate) show: Vec<Sourced<ShownName>>,
    pub(crate) protect: Vec<Sourced<ProtectedName>>,
    pub(crate) missing: Sourced<MissingNames>,
    pub(crate) unprotected: Unprotected,
    pub(crate) git: Sourced<Access>,
    pub(crate) git_protect: Vec<Sourced<ProtectedName>>,
    pub(crate) run_variables: Vec<Sourced<RunVariable>>,
    pub(crate) pass: Vec<Sourced<VariablePattern>>,
    pub(crate) set: Vec<(String, Sourced<String>)>,
    pub(crate) filters: Vec<Sourced<FilterName>>,
    limits: ProfileLimits,
}

/// A file of `/etc` that we write ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GeneratedFile {
    Passwd,
    Group,
    NameService,
    Hosts,
    Resolver,
}

/// The name of a variable that the run sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunVariable(pub(crate) String);

impl Profile {
    /// Reads a profile; what it extends is one of the built-in ones.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let mut layers = vec![Layer::read(name, text)?];
        let extends = layers.iter().find_map(|layer| layer.raw.extends.as_ref());
        let extends = extends.map(|extends| extends.get_ref().clone());
        // What is built in extends what is built in, and ends with one that extends nothing.
        while let Some(base) = layers.last().map(base_of).transpose()?.flatten() {
            layers.push(base);
        }
        layers.reverse();
        let layers = Layers::new(layers);

        let rules = match layers.scalar("confinement", |raw| &raw.confinement)?.value {
            Confinement::None => None,
            Confinement::Bubblewrap => Some(Rules::read(name, &layers)?),
        };
        let description = layers.scalar("description", |raw| &raw.description)?.value;
        Ok(Self { name: name.to_owned(), extends, description, rules })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the profile that it says it extends.
    pub fn extends(&self) -> Option<&str> {
        self.extends.as_deref()
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the network mode; without a sandbox it is the host's.
    pub fn network_mode(&self) -> NetworkMode {
        self.rules.as_ref().map_or(NetworkMode::Host, |rules| rules.network.mode.value)
    }

    /// Returns the hosts that may be reached in the mode `allowlist`.
    pub fn allowed_hosts(&self) -> impl Iterator<Item = &AllowedHost> {
        self.rules.iter().flat_map(|rules| &rules.network.allow).map(|entry| &entry.value)
    }

    pub fn confinement(&self) -> Confinement {
        match self.rules {
            Some(_) => Confinement::Bubblewrap,
            None => Confinement::None,
        }
    }

    /// Tells whether it is not for root.
    pub fn refuses_root(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.root_caller.value == RootCaller::Refuse)
    }

    /// Tells whether a variable of the host is taken into the sandbox.
    ///
    /// Without a sandbox nothing is decided here, and nothing passes.
    pub fn passes_variable(&self, name: &OsStr) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.passes(name).is_some())
    }

    /// Returns what a sandboxed run may take of the machine. Without a sandbox nothing is decided here.
    pub fn limits(&self) -> Option<&ProfileLimits> {
        self.rules.as_ref().map(|rules| &rules.limits)
    }

    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }
}

impl Rules {
    fn read(name: &str, layers: &Layers) -> Result<Self, ProfileError> {
        let rules = Self {
            root_caller: layers.scalar("caller.root", |raw| &raw.caller.root)?,
            namespaces: layers.list(|raw| &raw.namespaces.own)?,
            hostname: layers.parsed("namespaces.hostname", |raw| &raw.namespaces.hostname)?,
            network: NetworkRules::read(layers)?,
            system_read_only: layers.list(|raw| &raw.system.read_only)?,
            system_links: layers.list(|raw| &raw.system.links)?,
            etc: layers.list(|raw| &raw.system.etc)?,
            generated: layers.list(|raw| &raw.system.generated)?,
            proc: layers.scalar("kernel.proc", |raw| &raw.kernel.proc)?.origin,
            sysctl: layers.scalar("kernel.sysctl", |raw| &raw.kernel.sysctl)?.origin,
            dev: layers.scalar("kernel.dev", |raw| &raw.kernel.dev)?.origin,
            shm: layers.parsed("kernel.shm", |raw| &raw.kernel.shm)?,
            tmp: layers.parsed("temporary.tmp", |raw| &raw.temporary.tmp)?,
            run: layers.parsed("temporary.run", |raw| &raw.temporary.run)?,
            parents: layers.parsed("temporary.parents", |raw| &raw.temporary.parents)?,
            home: layers.parsed("home.size", |raw| &raw.home.size)?,
            expose: layers.list(|raw| &raw.tools.expose)?,
            program: layers.scalar("run.program", |raw| &raw.run.program)?.origin,
            sockets: layers.scalar("run.sockets", |raw| &raw.run.sockets)?.origin,
            dot_cursor: layers.scalar("run.dot_cursor", |raw| &raw.run.dot_cursor)?.origin,
            chats: layers.scalar("run.chats", |raw| &raw.run.chats)?,
            data: layers.scalar("run.data", |raw| &raw.run.data)?,
            workspace: layers.scalar("workspace.access", |raw| &raw.workspace.access)?,
            show: layers.list(|raw| &raw.workspace.show)?,
            protect: layers.list(|raw| &raw.workspace.protect)?,
            missing: layers.scalar("workspace.missing", |raw| &raw.workspace.missing)?,
            unprotected: layers
                .scalar("workspace.unprotected", |raw| &raw.workspace.unprotected)?
                .value,
            git: layers.scalar("workspace.git", |raw| &raw.workspace.git)?,
            git_protect: layers.list(|raw| &raw.workspace.git_protect)?,
            run_variables: layers.list(|raw| &raw.environment.run)?,
            pass: layers.list(|raw| &raw.environment.pass)?,
            set: layers.set_variables()?,
            filters: layers.list(|raw| &raw.seccomp.filters)?,
            limits: ProfileLimits::read(layers)?,
        };
        // Without the first no mount of ours is safe from the inside, without the second no run can be ended whole.
        for (needed, namespace) in [(Namespace::User, "user"), (Namespace::Pid, "pid")] {
            if rules.namespaces.iter().all(|own| own.value != needed) {
                return Err(ProfileError::NamespaceNeeded { profile: name.to_owned(), namespace });
            }
        }
        Ok(rules)
    }

    /// Returns the line that lets a variable of the host in.
    pub(crate) fn passes(&self, name: &OsStr) -> Option<&Origin> {
        if values::never_inherited(name) {
            return None;
        }
        self.pass.iter().find(|entry| entry.value.fits(name)).map(|entry| &entry.origin)
    }
}

/// Reads the built-in profile that another one extends.
fn base_of(layer: &Layer) -> Result<Option<Layer>, ProfileError> {
    let Some(extends) = &layer.raw.extends else { return Ok(None) };
    let base = extends.get_ref();
    let (name, text) = BUILTIN.iter().find(|(builtin, _)| builtin == base).ok_or_else(|| {
        ProfileError::UnknownBase {
            profile: layer.name().to_owned(),
            line: layer.line(extends),
            base: base.clone(),
        }
    })?;
    Layer::read(name, text).map(Some)
}

impl std::str::FromStr for GeneratedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "/etc/passwd" => Self::Passwd,
            "/etc/group" => Self::Group,
            "/etc/nsswitch.conf" => Self::NameService,
            "/etc/hosts" => Self::Hosts,
            "/etc/resolv.conf" => Self::Resolver,
            other => return Err(format!("`{other}` is not a file that can be generated")),
        })
    }
}

impl std::str::FromStr for RunVariable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        match !text.is_empty() && text.bytes().all(plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{text}` is not the name of a variable")),
        }
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
