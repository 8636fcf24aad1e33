//! The agent's permissions: the allow and deny lists, `--force`, and the read-only modes.
//!
//! A headless agent cannot ask the user, so it rejects every call that is not allowed. Reads and edits need no entry in
//! the allow-list; shells, MCP tools and web pages do. A deny entry wins over everything, including `--force`.

mod rule;

use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, WorkspacePath, without_dots};
use serde_json::Value;

use crate::tools::{ParsedCommand, SimpleCommand, read_json};
use rule::{Kind, Rule, two};

/// How much the agent may do beyond the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nothing: only the lists count.
    AllowList,
    /// Everything that is not denied: `--force`.
    Force,
    /// Nothing that changes files: `--mode plan` and `--mode ask`. Wins over `--force`.
    ReadOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Only the user could allow it.
    NotAllowed,
    /// A deny entry forbids it.
    Denied,
}

/// The rules of one run.
#[derive(Debug, Clone)]
pub struct Permissions {
    policy: ApprovalPolicy,
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    workspace: PathBuf,
}

/// Commands that the read-only modes run without an entry in the allow-list.
const READ_ONLY_COMMANDS: [&str; 7] = ["ls", "cat", "pwd", "head", "tail", "wc", "grep"];

impl Permissions {
    /// Reads the lists: `cli-config.json`, then each `.cursor/cli.json` from the project root down to the workspace.
    /// A deeper file replaces the lists that it has. An unreadable file counts as missing.
    pub fn load(
        roots: &CursorRoots,
        project_root: &WorkspacePath,
        workspace: &WorkspacePath,
        policy: ApprovalPolicy,
    ) -> Self {
        let config = read_json(&roots.cli_config()).unwrap_or_default();
        let mut allow =
            list(&config["permissions"]["allow"]).unwrap_or_else(|| vec!["Shell(ls)".to_owned()]);
        let mut deny = list(&config["permissions"]["deny"]).unwrap_or_default();
        for file in project_files(project_root.as_path(), workspace.as_path()) {
            let Some(permissions) = read_json(&file).and_then(project_permissions) else {
                continue;
            };
            allow = list(&permissions["allow"]).unwrap_or(allow);
            deny = list(&permissions["deny"]).unwrap_or(deny);
        }
        for domain in list(&config["webFetchDomainAllowlist"]).unwrap_or_default() {
            allow.push(format!("WebFetch({domain})"));
        }
        let user = read_json(&roots.dot_cursor().join("permissions.json")).unwrap_or_default();
        for server_and_tool in list(&user["mcpAllowlist"]).unwrap_or_default() {
            allow.push(format!("Mcp({server_and_tool})"));
        }
        let unrestricted =
            policy == ApprovalPolicy::AllowList && config["approvalMode"] == "unrestricted";
        let policy = if unrestricted { ApprovalPolicy::Force } else { policy };
        Self::new(policy, &allow, &deny, workspace.as_path(), roots.home())
    }

    /// Makes rules from entries such as `Shell(git:log*)`. Skips meaningless entries.
    pub fn new(
        policy: ApprovalPolicy,
        allow: &[impl AsRef<str>],
        deny: &[impl AsRef<str>],
        workspace: &Path,
        home: &Path,
    ) -> Self {
        let parse = |entry: &str| Rule::parse(entry, home);
        Self {
            policy,
            allow: allow.iter().filter_map(|entry| parse(entry.as_ref())).collect(),
            deny: deny.iter().filter_map(|entry| parse(entry.as_ref())).collect(),
            workspace: workspace.to_owned(),
        }
    }

    pub(crate) fn shell(&self, command: &ParsedCommand) -> Verdict {
        let called = |name: &str, command: &SimpleCommand| {
            let args: Vec<&str> = command.args.iter().map(|arg| arg.text.as_str()).collect();
            two(name, &args.join(" "))
        };
        // A path does not hide a program from a deny entry. In an allow-list a path would let in any file called `ls`.
        let denied = command.commands.iter().any(|command| {
            let file_name = command.name.rsplit('/').next().unwrap_or_default();
            [command.name.as_str(), file_name]
                .iter()
                .any(|name| lists(&self.deny, Kind::Shell, &called(name, command)))
        });
        self.verdict(denied, || {
            // A command that could not be parsed might run anything.
            !command.parsing_failed
                && !command.has_command_substitution
                && !command.commands.is_empty()
                && command.commands.iter().all(|command| {
                    let harmless = self.policy == ApprovalPolicy::ReadOnly
                        && READ_ONLY_COMMANDS.contains(&command.name.as_str());
                    harmless || lists(&self.allow, Kind::Shell, &called(&command.name, command))
                })
                && (self.policy != ApprovalPolicy::ReadOnly || !command.has_output_redirect())
        })
    }

    pub(crate) fn read(&self, path: &Path) -> Verdict {
        if self.denies_path(Kind::Read, path) { Verdict::Denied } else { Verdict::Allowed }
    }

    pub(crate) fn write(&self, path: &Path) -> Verdict {
        // The agent must not change the file that hides other files from it.
        if self.denies_path(Kind::Write, path) || path.file_name() == Some(".cursorignore".as_ref())
        {
            return Verdict::Denied;
        }
        if self.policy == ApprovalPolicy::ReadOnly { Verdict::NotAllowed } else { Verdict::Allowed }
    }

    pub(crate) fn mcp(&self, server: &str, tool: &str) -> Verdict {
        self.listed(Kind::Mcp, &two(server, tool).to_lowercase())
    }

    pub(crate) fn web_fetch(&self, url: &str) -> Verdict {
        self.listed(Kind::WebFetch, &domain(url))
    }

    fn listed(&self, kind: Kind, subject: &str) -> Verdict {
        self.verdict(lists(&self.deny, kind, subject), || lists(&self.allow, kind, subject))
    }

    fn verdict(&self, denied: bool, is_listed: impl Fn() -> bool) -> Verdict {
        match self.policy {
            _ if denied => Verdict::Denied,
            ApprovalPolicy::Force => Verdict::Allowed,
            ApprovalPolicy::AllowList | ApprovalPolicy::ReadOnly if is_listed() => Verdict::Allowed,
            ApprovalPolicy::AllowList | ApprovalPolicy::ReadOnly => Verdict::NotAllowed,
        }
    }

    /// A pattern may name a path from the root or from the workspace.
    fn denies_path(&self, kind: Kind, path: &Path) -> bool {
        // A path with `..` must not evade a pattern.
        let path = without_dots(path);
        [Some(path.as_path()), path.strip_prefix(&self.workspace).ok()]
            .into_iter()
            .flatten()
            .any(|path| lists(&self.deny, kind, &path.to_string_lossy()))
    }
}

fn lists(rules: &[Rule], kind: Kind, subject: &str) -> bool {
    rules.iter().any(|rule| rule.is_about(kind, subject))
}

/// Returns the project's files from the shallowest to the deepest.
fn project_files(project_root: &Path, workspace: &Path) -> Vec<PathBuf> {
    let mut directories: Vec<&Path> =
        workspace.ancestors().take_while(|directory| directory.starts_with(project_root)).collect();
    directories.reverse();
    directories.into_iter().map(|directory| directory.join(".cursor/cli.json")).collect()
}

/// A project's file may have only `permissions`. The agent ignores a file with other keys.
fn project_permissions(file: Value) -> Option<Value> {
    let object = file.as_object()?;
    let permissions = object.get("permissions")?.as_object()?;
    let is_strict =
        object.len() == 1 && permissions.keys().all(|key| key == "allow" || key == "deny");
    is_strict.then(|| file["permissions"].clone())
}

fn list(value: &Value) -> Option<Vec<String>> {
    let entries = value.as_array()?.iter();
    Some(entries.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Returns a URL's host in lower case, without user and port.
fn domain(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
#[path = "permissions_tests.rs"]
mod tests;
