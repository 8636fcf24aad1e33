//! Commands and webhooks of the user's, which the daemon calls when a run starts, needs a person, or ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
