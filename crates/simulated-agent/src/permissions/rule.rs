//! One entry of an allow or deny list, such as `Shell(git:log*)`.

use std::path::Path;

use regex::Regex;

/// The kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Shell,
    Read,
    Write,
    Mcp,
    WebFetch,
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    kind: Kind,
    pattern: Regex,
}

/// Joins a subject of two parts: a program and its arguments, or a server and its tool. `*` never matches across the
/// separator.
pub(super) fn two(first: &str, second: &str) -> String {
    format!("{first}\0{second}")
}

impl Rule {
    /// In all patterns `*` stands for any text.
    pub(super) fn parse(entry: &str, home: &Path) -> Option<Self> {
        let (kind, rest) = entry.trim().split_once('(')?;
        let body = rest.strip_suffix(')')?.trim();
        let path = || match body.strip_prefix("~/") {
            Some(rest) => home.join(rest).to_string_lossy().into_owned(),
            None => body.strip_prefix("./").unwrap_or(body).to_owned(),
        };
        let (kind, pattern) = match kind {
            _ if body.is_empty() => return None,
            "Shell" | "Bash" => {
                let (command, args) = body.split_once(':').unwrap_or((body, "*"));
                (Kind::Shell, two(command, args))
            }
            "Read" => (Kind::Read, path()),
            "Write" => (Kind::Write, path()),
            "Mcp" => {
                let (server, tool) = body.split_once(':')?;
                (Kind::Mcp, two(server, tool).to_lowercase())
            }
            "WebFetch" => (Kind::WebFetch, body.to_ascii_lowercase()),
            _ => return None,
        };
        // Cursor also turns the pattern into a regular expression.
        let regex = regex::escape(&pattern).replace(r"\*", r"[^\x00]*");
        Some(Self { kind, pattern: Regex::new(&format!("^{regex}$")).ok()? })
    }

    pub(super) fn is_about(&self, kind: Kind, subject: &str) -> bool {
        self.kind == kind && self.pattern.is_match(subject)
    }
}
