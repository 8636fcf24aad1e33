//! Commands and webhooks of the user's, called when a run starts, needs a person, or ends.
//!
//! ```text
//!   journals ─► watcher (what happened to which run) ─► marker (claimed once, on disk) ─► call ─► marker (what came of it)
//! ```
//!
//! **Invariant:** at most once for each thing that happens to a run, however often the daemon is killed: the claim is on disk
//! before a hook is called. Of a daemon that is killed meanwhile nobody can say how far its hooks came, so that they are not
//! called again; the marker says which of them were done, and who had claimed them.
//!
//! **Invariant:** nothing that a hook does or does not do touches the run.

mod call;
mod marker;
mod watcher;

use std::time::Duration;

use run_journal::{boot_id, process_started};
use serde::{Deserialize, Serialize};

pub(crate) use watcher::work;

use crate::instance::Presence;

/// What happens to a run that somebody may want to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// Its agent was let go.
    Started,
    /// Its agent asks a person.
    NeedsHuman,
    /// It is over, in whatever way.
    Ended,
}

impl Transition {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::NeedsHuman => "needs_human",
            Self::Ended => "ended",
        }
    }
}

/// A hook of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// When it is called.
    pub on: Vec<Transition>,
    /// What is called.
    pub action: HookAction,
    /// It is ended, or given up, after this long.
    pub timeout: Duration,
}

/// What is called, with the run as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// A program and its arguments; the JSON is its stdin.
    Command(Vec<String>),
    /// A POST; the JSON is its body.
    Webhook(HookUrl),
}

/// `http://host[:port]/path`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookUrl {
    /// As it is in the `Host` header: with the port, if one was given.
    pub authority: String,
    /// What is connected to.
    pub host: String,
    /// 80 where none was given.
    pub port: u16,
    /// With the query.
    pub path: String,
}

/// What came of one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutcome {
    /// The command, or the address.
    pub hook: String,
    /// Whether it did what it was to do.
    pub is_ok: bool,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long it took.
    pub ms: u64,
}

/// `hooks/<run>/<what>.json`: that hooks were called for it, and what came of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRecord {
    /// The version of the file.
    pub v: u32,
    /// What happened to the run.
    pub transition: Transition,
    /// When it was claimed.
    pub at_ms: u64,
    /// How many hooks are to be called.
    #[serde(default)]
    pub n_hooks: usize,
    /// The daemon that claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<Claimer>,
    /// Of those that are done, in their order.
    #[serde(default)]
    pub outcomes: Vec<HookOutcome>,
    /// How that stands now. Not on disk: it is found out by whoever reads.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub standing: Option<HookStanding>,
}

/// A daemon, so that it can be told from another of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimer {
    pub pid: u32,
    /// The kernel's count of when the process was started.
    #[serde(default)]
    pub started: Option<u64>,
    /// The kernel's id of the machine's start.
    #[serde(default)]
    pub boot: Option<String>,
}

impl Claimer {
    pub(crate) fn of_this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started: process_started(pid), boot: boot_id() }
    }

    /// The lock is the truth: a process that is dead and not buried has let go of it.
    fn is_the_daemon(&self, presence: &Presence) -> bool {
        let Presence::Held(Some(note)) = presence else { return false };
        (note.pid, note.started, &note.boot) == (self.pid, self.started, &self.boot)
    }
}

/// How far the hooks of one thing that happened are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookStanding {
    Done,
    UnderWay,
    /// The daemon died over it. Those that are not done may have been called or not, and are not called again.
    Interrupted,
}

impl HookRecord {
    fn standing_with(&self, presence: &Presence) -> HookStanding {
        // Those of before did not say how many they are, and were written when all were done.
        if !self.outcomes.is_empty() && self.outcomes.len() >= self.n_hooks {
            HookStanding::Done
        } else if self.claimed_by.as_ref().is_some_and(|daemon| daemon.is_the_daemon(presence)) {
            HookStanding::UnderWay
        } else {
            HookStanding::Interrupted
        }
    }
}

pub use marker::records_of;

/// Says why an address cannot be posted to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAHookUrl {
    /// There is no TLS in here.
    #[error("`{0}` is https, which webhooks do not speak; call curl as the command instead")]
    Tls(String),
    /// Anything else.
    #[error("`{0}` is no address of a webhook; write `http://host:port/path`")]
    Form(String),
}

impl std::str::FromStr for HookUrl {
    type Err = NotAHookUrl;

    fn from_str(text: &str) -> Result<Self, NotAHookUrl> {
        if text.starts_with("https://") {
            return Err(NotAHookUrl::Tls(text.to_owned()));
        }
        let refused = || NotAHookUrl::Form(text.to_owned());
        let rest = text.strip_prefix("http://").ok_or_else(refused)?;
        if rest.chars().any(|c| c.is_ascii_control() || c == ' ') || !rest.is_ascii() {
            return Err(refused());
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest[at..].starts_with('/') => (&rest[..at], rest[at..].to_owned()),
            Some(at) => (&rest[..at], format!("/{}", &rest[at..])),
            None => (rest, "/".to_owned()),
        };
        // Nothing secret belongs into a file that says whom to call.
        if authority.contains('@') {
            return Err(refused());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| refused())?)
            }
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(refused());
        }
        Ok(Self { authority: authority.to_owned(), host, port, path })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_what_cannot_be_called_is_refused() {
        let url: HookUrl = "http://127.0.0.1:8080/hook?x=1".parse().unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("127.0.0.1", 8080, "/hook?x=1")
        );
        let url: HookUrl = "http://[::1]:9".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 9, "/"));
        let url: HookUrl = "http://localhost?x".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("localhost", 80, "/?x"));
        for text in ["", "ftp://x", "http://", "http://a:b/", "http://u:p@h/", "http://a b/"] {
            assert_eq!(text.parse::<HookUrl>(), Err(NotAHookUrl::Form(text.to_owned())), "{text}");
        }
        let tls = "https://example.org".parse::<HookUrl>().unwrap_err();
        assert!(tls.to_string().contains("curl"), "{tls}");
    }
}
