//! The report of a trial: a file that a user can post without revealing anything about the machine.
//!
//! It holds the checks and their marks, and the versions of five programs. Every value is one of a fixed set, or
//! numbers in a fixed form:
//!
//! ```text
//!   {
//!     "v": 1,
//!     "kind": "trial",
//!     "versions": {
//!       "caretaker": NUMBERS,              "bubblewrap": NUMBERS,          "kernel": NUMBERS,
//!       "agent": DATE-BUILD | "simulated", "system": NAME | NAME NUMBERS            each may be "unknown"
//!     },
//!     "checks": { "first_line": "✓" | "✗" | "–", … }                            `–`: not reached
//!   }
//! ```
//!
//! **Invariant:** no other text gets in. Whatever does not have the form is `unknown`.

use std::fs;

use cursor_home::parse_version;
use run_protocol::{AgentKind, AgentProgram};
use serde::Serialize;
use serde_json::{Map, Value};

use super::CHECKS;
use crate::health::Finding;

const UNKNOWN: &str = "unknown";

/// The systems that a report names, by their `ID` in `/etc/os-release`.
const SYSTEMS: [&str; 14] = [
    "alpine",
    "almalinux",
    "amzn",
    "arch",
    "centos",
    "debian",
    "fedora",
    "linuxmint",
    "nixos",
    "opensuse-leap",
    "opensuse-tumbleweed",
    "rhel",
    "rocky",
    "ubuntu",
];

/// The programs around a trial, as they describe themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Programs {
    pub(crate) caretaker: String,
    pub(crate) is_simulated: bool,
    pub(crate) agent: String,
    pub(crate) bubblewrap: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// `/etc/os-release`.
    pub(crate) system: String,
}

impl Programs {
    pub(crate) fn of_host(agent: &AgentProgram, bubblewrap: Option<String>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            caretaker: env!("CARGO_PKG_VERSION").to_owned(),
            is_simulated: agent.kind == AgentKind::Simulated,
            agent: agent.version.clone().unwrap_or_default(),
            bubblewrap: bubblewrap.unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease"),
            system: read("/etc/os-release"),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    v: u32,
    kind: &'static str,
    versions: Versions,
    checks: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Versions {
    caretaker: String,
    agent: String,
    bubblewrap: String,
    kernel: String,
    system: String,
}

impl Report {
    pub(crate) fn new(programs: &Programs, findings: &[Finding]) -> Self {
        let versions = Versions {
            caretaker: numbers(&programs.caretaker),
            agent: match programs.is_simulated {
                true => "simulated".to_owned(),
                false => agent_version(&programs.agent),
            },
            bubblewrap: numbers(&programs.bubblewrap),
            kernel: numbers(leading_numbers(&programs.kernel)),
            system: system(&programs.system),
        };
        let mark = |id: &str| {
            let found = findings.iter().find(|finding| finding.id == id);
            found.map_or("–", |finding| finding.status.mark())
        };
        let checks = CHECKS.into_iter().map(|id| (id.to_owned(), mark(id).into())).collect();
        Self { v: 1, kind: "trial", versions, checks }
    }
}

/// A version of up to four short numbers.
fn numbers(text: &str) -> String {
    let is_number = |part: &str| {
        (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let text = text.trim();
    match text.split('.').count() <= 4 && text.split('.').all(is_number) {
        true => text.to_owned(),
        false => UNKNOWN.to_owned(),
    }
}

/// `6.1.0` of `6.1.0-18-amd64`. The rest may name the person who built the kernel.
fn leading_numbers(release: &str) -> &str {
    let end = release.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(release.len());
    release[..end].trim_end_matches('.')
}

/// A date and a build in hex digits, which may have a time before it.
fn agent_version(text: &str) -> String {
    let is_time = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = |part: &str| {
        (7..=12).contains(&part.len())
            && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_build = |build: &str| match build.split('-').collect::<Vec<_>>().as_slice() {
        [hash] => is_hash(hash),
        [time @ .., hash] => time.len() == 3 && time.iter().all(is_time) && is_hash(hash),
        [] => false,
    };
    match parse_version(text) {
        Some(version) if version.build.as_deref().is_some_and(is_build) => version.to_string(),
        _ => UNKNOWN.to_owned(),
    }
}

/// A known name from `/etc/os-release`, and the numbers of its version if it has one.
fn system(os_release: &str) -> String {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim().trim_matches(['"', '\''])
    };
    let Some(name) = SYSTEMS.into_iter().find(|name| *name == value("ID")) else {
        return UNKNOWN.to_owned();
    };
    match numbers(value("VERSION_ID")) {
        version if version == UNKNOWN => name.to_owned(),
        version => format!("{name} {version}"),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
