//! The user's commands and webhooks, which the daemon calls when a run starts, needs the user, or ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The events that hooks can listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// The agent started.
    Started,
    /// The agent asks the user a question.
    NeedsHuman,
    /// The run ended, with any outcome.
    Ended,
}

impl Transition {
    /// The name in the configuration and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::NeedsHuman => "needs_human",
            Self::Ended => "ended",
        }
    }
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub on: Vec<Transition>,
    pub action: HookAction,
    /// The daemon stops the hook after this time.
    pub timeout: Duration,
}

/// The action of a hook. It gets the run as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// A program and its arguments; the JSON is its stdin.
    Command(Vec<String>),
    /// A POST; the JSON is its body.
    Webhook(HookUrl),
}

/// The parts of `http://host[:port]/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookUrl {
    /// The `Host` header, with the port if the URL has one.
    pub authority: String,
    pub host: String,
    /// 80 if the URL names no port.
    pub port: u16,
    /// Including the query.
    pub path: String,
}

/// Why a URL cannot be a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAHookUrl {
    /// Caretaker has no TLS client.
    #[error("`{0}` is https, which webhooks do not support; call curl as a command instead")]
    Tls(String),
    #[error("`{0}` is not a webhook URL; write `http://host:port/path`")]
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
        // A password does not belong in the configuration.
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
#[path = "hooks_tests.rs"]
mod tests;
