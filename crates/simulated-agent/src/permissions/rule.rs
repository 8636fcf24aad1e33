//! One entry of an allow or deny list, such as `Shell(git:log*)`.

use std::path::Path;

use regex::Regex;

use crate::tools::SimpleCommand;

/// In all patterns `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// `Shell(command)` or `Shell(command:arguments)`; `Bash(…)` is the same.
    Shell {
        command: String,
        args: Option<String>,
    },
    Read(String),
    Write(String),
    /// In lower case: the case of a name does not count.
    Mcp {
        server: String,
        tool: String,
    },
    WebFetch(String),
}

impl Rule {
    pub(super) fn parse(entry: &str) -> Option<Self> {
        let (kind, rest) = entry.trim().split_once('(')?;
        let body = rest.strip_suffix(')')?.trim();
        if body.is_empty() {
            return None;
        }
        Some(match kind {
            "Shell" | "Bash" => match body.split_once(':') {
                Some((command, args)) => {
                    Self::Shell { command: command.to_owned(), args: Some(args.to_owned()) }
                }
                None => Self::Shell { command: body.to_owned(), args: None },
            },
            "Read" => Self::Read(body.to_owned()),
            "Write" => Self::Write(body.to_owned()),
            "Mcp" => {
                let (server, tool) = body.split_once(':')?;
                Self::Mcp { server: server.to_lowercase(), tool: tool.to_lowercase() }
            }
            "WebFetch" => Self::WebFetch(body.to_ascii_lowercase()),
            _ => return None,
        })
    }

    pub(super) fn allows_command(&self, command: &SimpleCommand) -> bool {
        self.matches_command(&command.name, command)
    }

    /// A path does not hide a program from a deny entry. In an allow-list a path would let in any file called `ls`.
    pub(super) fn denies_command(&self, command: &SimpleCommand) -> bool {
        let file_name = command.name.rsplit('/').next().unwrap_or_default();
        self.matches_command(&command.name, command) || self.matches_command(file_name, command)
    }

    fn matches_command(&self, name: &str, command: &SimpleCommand) -> bool {
        let Self::Shell { command: pattern, args } = self else { return false };
        let given: Vec<&str> = command.args.iter().map(|arg| arg.text.as_str()).collect();
        matches(pattern, name) && args.as_ref().is_none_or(|args| matches(args, &given.join(" ")))
    }

    pub(super) fn is_about_reading(&self, names: &[String], home: &Path) -> bool {
        matches!(self, Self::Read(pattern) if matches_any(pattern, names, home))
    }

    pub(super) fn is_about_writing(&self, names: &[String], home: &Path) -> bool {
        matches!(self, Self::Write(pattern) if matches_any(pattern, names, home))
    }

    pub(super) fn is_about_mcp(&self, server: &str, tool: &str) -> bool {
        let Self::Mcp { server: servers, tool: tools } = self else { return false };
        matches(servers, &server.to_lowercase()) && matches(tools, &tool.to_lowercase())
    }

    pub(super) fn is_about_domain(&self, domain: &str) -> bool {
        matches!(self, Self::WebFetch(pattern) if matches(pattern, domain))
    }
}

fn matches_any(pattern: &str, names: &[String], home: &Path) -> bool {
    let pattern = match pattern.strip_prefix("~/") {
        Some(rest) => home.join(rest).to_string_lossy().into_owned(),
        None => pattern.strip_prefix("./").unwrap_or(pattern).to_owned(),
    };
    names.iter().any(|name| matches(&pattern, name))
}

/// True if the whole text matches. Cursor, too, turns `*` into `.*`.
fn matches(pattern: &str, text: &str) -> bool {
    let regex = regex::escape(pattern).replace(r"\*", ".*");
    Regex::new(&format!("(?s)^{regex}$")).is_ok_and(|regex| regex.is_match(text))
}
