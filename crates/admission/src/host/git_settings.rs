//! The user's git settings, as files in the private home: identity, ignore rules, attributes, line endings.
//!
//! The host's git says which settings apply in the workspace, so includes and conditions count. Caretaker copies only
//! the user's and the system's settings: the repository's own configuration is visible inside the sandbox anyway.
//!
//! **Invariant:** the copy has only keys from a closed list. It names no program except git-lfs, in its usual commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ground::command::{self, Bounds};
use ground::{plain_file, with_causes};
use workspace_history::GitError;

use crate::host::{Host, host_git};
use crate::words::talk::Remark;

const QUESTION: Duration = Duration::from_secs(10);
/// The limit on the answer, and on the files with ignore rules and attributes.
const MOST_ANSWER: u64 = 4 << 20;
const MOST_RULES: u64 = 256 * 1024;
/// A longer chain of links counts as a loop.
const MOST_LINKS: usize = 40;

/// Where git looks by default, so that the copies need no setting.
const CONFIG: &str = ".gitconfig";
const IGNORE: &str = ".config/git/ignore";
const ATTRIBUTES: &str = ".config/git/attributes";
/// Keeps `git add -A` from committing the run's own files.
const OURS: &str = "/.cursor/mcp.json\n/.cursor/cli.json\n";

/// The settings that are copied regardless of their value. None of them runs a program or names a file.
const DATA: [&str; 11] = [
    "author.email",
    "author.name",
    "committer.email",
    "committer.name",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "init.defaultbranch",
    "user.email",
    "user.name",
    "user.useconfigonly",
];

/// The commands that `git lfs install` writes. Other commands are not copied, because they could start anything.
const LFS: [(&str, &[&str]); 4] = [
    ("filter.lfs.clean", &["git-lfs clean -- %f"]),
    ("filter.lfs.process", &["git-lfs filter-process", "git-lfs filter-process --skip"]),
    ("filter.lfs.required", &["true", "false"]),
    ("filter.lfs.smudge", &["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"]),
];

/// The user's git settings for a run.
#[derive(Debug, Default)]
pub(crate) struct GitSettings {
    /// Path in the private home, text.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) remarks: Vec<Remark>,
}

impl GitSettings {
    /// Asks the host's git. Without an answer, commits have the agent's own identity.
    pub(crate) fn of(host: &Host, workspace: &Path) -> Self {
        let mut remarks = Vec::new();
        let answer = ask(host, workspace).unwrap_or_else(|error| {
            let error = with_causes(&error);
            let what = format!("the sandbox does not have your git settings: {error}");
            remarks.push(Remark::Warning(what));
            Vec::new()
        });
        let answer = Answer::parse(&answer);
        if answer.signs {
            let what = "commits and tags in the sandbox are not signed, because it does not have your keys";
            remarks.push(Remark::Note(what.to_owned()));
        }
        let mut rules = |key, name| {
            let path = rules_path(host, answer.of_user.get(key).map(String::as_str), name)?;
            read_rules(&path, workspace).unwrap_or_else(|error| {
                let path = path.display();
                let what =
                    format!("the sandbox does not have `{path}`, which your git uses: {error}");
                remarks.push(Remark::Warning(what));
                None
            })
        };
        let (ignore, attributes) =
            (rules("core.excludesfile", "ignore"), rules("core.attributesfile", "attributes"));
        // Last, so that none of the user's rules overrides ours.
        let ignore = format!("{}{OURS}", ignore.unwrap_or_default());
        let mut files = BTreeMap::from([
            (CONFIG.to_owned(), config_text(&answer.of_user)),
            (IGNORE.to_owned(), ignore),
        ]);
        files.extend(attributes.map(|text| (ATTRIBUTES.to_owned(), text)));
        Self { files, remarks }
    }
}

/// The settings that apply in the workspace, as git lists them. Empty if there is no git.
fn ask(host: &Host, workspace: &Path) -> Result<Vec<u8>, GitError> {
    let Ok(git) = host_git::find(host, Some(workspace)) else { return Ok(Vec::new()) };
    // Git runs no program to list settings.
    let mut command = git.command_in(workspace)?;
    command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_NOSYSTEM");
    command.env("HOME", &host.environment.home);
    for name in ["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"]
    {
        command.envs(host.environment.variable(name).map(|value| (name, value)));
    }
    command.args(["config", "--list", "-z", "--show-scope", "--includes"]);
    let bounds = Bounds { within: QUESTION, most_output: MOST_ANSWER };
    let answer = command::run(&mut command, None, bounds)?;
    match answer.status.success() {
        true => Ok(answer.stdout),
        false => Err(GitError::Refused(answer.stderr_text().trim().to_owned())),
    }
}

/// The output of `git config --list -z --show-scope`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The user's and the system's settings. The last value of a key wins.
    of_user: BTreeMap<String, String>,
    signs: bool,
}

impl Answer {
    /// Each setting is scope, NUL, key, line feed, value, NUL. A key without a value is true.
    fn parse(listed: &[u8]) -> Self {
        let listed = String::from_utf8_lossy(listed);
        let mut words = listed.split('\0');
        let (mut of_user, mut signing) = (BTreeMap::new(), BTreeMap::new());
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
            if matches!(key, "commit.gpgsign" | "tag.gpgsign") {
                signing.insert(key, is_true(value));
            }
            if matches!(scope, "system" | "global") {
                of_user.insert(key.to_owned(), value.to_owned());
            }
        }
        Self { of_user, signs: signing.into_values().any(|signs| signs) }
    }
}

fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "" | "false" | "no" | "off" | "0")
}

/// The `.gitconfig` of the private home.
fn config_text(of_user: &BTreeMap<String, String>) -> String {
    let is_usual = |(key, known): &(&str, &[&str])| {
        of_user.get(*key).is_none_or(|value| known.contains(&value.as_str()))
    };
    // All of git-lfs or nothing: a required filter without its program would refuse every file.
    let lfs = LFS.iter().map(|(key, _)| *key).filter(|_| LFS.iter().all(is_usual));
    let mut settings = BTreeMap::from([
        ("user.name", "Cursor Agent"),
        ("user.email", "agent@localhost"),
        // In the sandbox, the workspace may seem to belong to another user. Admission has checked its real owner.
        ("safe.directory", "*"),
    ]);
    for key in DATA.into_iter().chain(lfs) {
        settings.extend(of_user.get(key).map(|value| (key, value.as_str())));
    }
    let line = |(key, value): (&str, &str)| {
        let (section, name) = key.rsplit_once('.').unwrap_or((key, ""));
        let section = match section.split_once('.') {
            Some((section, part)) => format!("{section} \"{part}\""),
            None => section.to_owned(),
        };
        format!("[{section}]\n\t{name} = {}\n", quoted(value))
    };
    settings.into_iter().map(line).collect()
}

fn quoted(value: &str) -> String {
    let escaped: String = value
        .chars()
        .filter(|character| !character.is_control())
        .flat_map(|character| match character {
            '"' | '\\' => vec!['\\', character],
            _ => vec![character],
        })
        .collect();
    format!("\"{escaped}\"")
}

/// The user's file of ignore rules or attributes: the one that the settings name, or git's default.
fn rules_path(host: &Host, named: Option<&str>, default: &str) -> Option<PathBuf> {
    let environment = &host.environment;
    let Some(named) = named else {
        let config = environment.absolute_path("XDG_CONFIG_HOME").map(Path::to_owned);
        let config = config.unwrap_or_else(|| environment.home.join(".config"));
        return Some(config.join("git").join(default));
    };
    let path = match named.strip_prefix("~/") {
        Some(rest) => environment.home.join(rest),
        None => PathBuf::from(named),
    };
    path.is_absolute().then_some(path)
}

/// The rules, ending with a line feed. `None` if there is no such file.
fn read_rules(path: &Path, workspace: &Path) -> io::Result<Option<String>> {
    let read =
        followed(path, workspace).and_then(|path| plain_file::read_at_most(&path, MOST_RULES));
    match read {
        Ok(bytes) if bytes.is_empty() => Ok(None),
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(Some(if text.ends_with('\n') { text } else { text + "\n" }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Follows links, because users often keep such files elsewhere. Refuses paths through the workspace, because an agent
/// could at any time replace a file there with a link to a key.
fn followed(path: &Path, workspace: &Path) -> io::Result<PathBuf> {
    let (mut at, mut n_links) = (PathBuf::from("/"), 0);
    let mut left: Vec<OsString> = parts(path);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(part);
        if next.starts_with(workspace) {
            return Err(io::Error::other("it is in the workspace, where an agent can replace it"));
        }
        match fs::read_link(&next) {
            Err(_) => at = next,
            Ok(_) if n_links == MOST_LINKS => {
                return Err(io::Error::other("its links form a loop"));
            }
            Ok(target) => {
                n_links += 1;
                left.extend(parts(&target));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
            }
        }
    }
    Ok(at)
}

/// The names in a path, last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names =
        path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    names.rev().map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
#[path = "git_settings_tests.rs"]
mod tests;
