//! Describes the plan for people. Each part names its origin.

use std::ffi::OsStr;
use std::fmt::{self, Display};

use run_protocol::NetworkMode;

use crate::origin::Origin;
use crate::plan::PlannedNetwork;
use crate::profile::Access;
use crate::request::Secrecy;
use crate::step::{Author, FIRST_PROCESS, PlannedStep, Step};

/// A part of the plan, described for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub what: PlanPart,
    pub detail: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanPart {
    Namespace,
    Guard,
    Variable,
    Mount,
    Link,
    File,
    Filter,
    Network,
}

impl Display for PlanPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` lets a table align the text.
        formatter.pad(match self {
            Self::Namespace => "namespace",
            Self::Guard => "guard",
            Self::Variable => "variable",
            Self::Mount => "mount",
            Self::Link => "link",
            Self::File => "file",
            Self::Filter => "filter",
            Self::Network => "network",
        })
    }
}

impl PlannedNetwork {
    /// Lists what the agent may reach. The network namespace is among the steps.
    pub(crate) fn explain(&self) -> Vec<Explained> {
        let what = PlanPart::Network;
        match self.mode {
            NetworkMode::Host => {
                let detail = "everything that this machine can reach, including its own services";
                vec![Explained { what, detail: detail.to_owned(), origin: self.origin.clone() }]
            }
            NetworkMode::None => Vec::new(),
            NetworkMode::Allowlist => self
                .allow
                .iter()
                .map(|(host, origin)| {
                    let detail = format!("{host} may be reached");
                    Explained { what, detail, origin: origin.clone() }
                })
                .collect(),
        }
    }
}

impl PlannedStep {
    pub(crate) fn explain(&self) -> Explained {
        let (what, detail) = match &self.step {
            Step::Namespace { what, .. } => (PlanPart::Namespace, (*what).to_owned()),
            Step::Guard { what, .. } => (PlanPart::Guard, (*what).to_owned()),
            Step::Hostname(name) => (PlanPart::Namespace, format!("the host is called {name}")),
            Step::SetVariable { name, value, secrecy } => {
                let value = match secrecy {
                    Secrecy::Public => shown(value),
                    Secrecy::Secret => "(secret)".to_owned(),
                };
                (PlanPart::Variable, format!("{}={value}", shown(name)))
            }
            Step::Bind { source, dest, access, .. } => {
                let access = match access {
                    Access::ReadOnly => "read-only",
                    Access::ReadWrite => "read-write",
                };
                let dest_text = shown(dest.as_os_str());
                let detail = match source == dest {
                    true => format!("{dest_text} {access}"),
                    false => format!("{dest_text} {access} from {}", shown(source.as_os_str())),
                };
                (PlanPart::Mount, detail)
            }
            Step::Symlink { target, dest } => {
                let (target, dest) = (shown(target.as_os_str()), shown(dest.as_os_str()));
                (PlanPart::Link, format!("{dest} to {target}"))
            }
            Step::Tmpfs { dest, size, .. } => {
                let dest = shown(dest.as_os_str());
                (PlanPart::Mount, format!("{dest} empty, in memory, at most {}", bytes(*size)))
            }
            Step::Proc => (PlanPart::Mount, "its own /proc".to_owned()),
            Step::HideFirstProcess => {
                (PlanPart::Mount, format!("{FIRST_PROCESS} hidden: its memory is out of reach"))
            }
            Step::Dev => (PlanPart::Mount, "/dev with the few devices that are safe".to_owned()),
            Step::File { dest, author, .. } => {
                let author = match author {
                    Author::Caretaker => "written by Caretaker",
                    Author::Host => "copied from the host",
                };
                (PlanPart::File, format!("{} {author}", shown(dest.as_os_str())))
            }
            Step::RemountReadOnly(dest) => {
                let dest = shown(dest.as_os_str());
                (PlanPart::Guard, format!("{dest} itself is read-only once it is filled"))
            }
            Step::ChangeDirectory(dest) => {
                (PlanPart::Guard, format!("started in {}", shown(dest.as_os_str())))
            }
            Step::Filter { name, .. } => {
                (PlanPart::Filter, format!("system calls in seccomp/{name}.toml are refused"))
            }
        };
        Explained { what, detail, origin: self.origin.clone() }
    }
}

/// Returns a path or a value on one line, without control characters.
fn shown(text: &OsStr) -> String {
    text.to_string_lossy()
        .chars()
        .flat_map(|c| {
            let escape = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

fn bytes(size: u64) -> String {
    match size {
        _ if size.is_multiple_of(1 << 30) => format!("{} GiB", size >> 30),
        _ if size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        _ => format!("{size} bytes"),
    }
}
